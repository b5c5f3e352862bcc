// One segment of a model (a layer, or the embedding or the output): its operations and the handles of its weights.
// Creating one reads nothing; `validate` compares what the graph needs with what the file has, all at once.

import type { Backend } from "../backends/contract.js";
import { type Operation, type WeightId, weightsOf } from "../graph/operation.js";
import type { Program, Segment, WeightSpec } from "../graph/program.js";
import type { GgufLoader } from "../loader/gguf-loader.js";
import { SUPPORTED } from "../quant/layout.js";
import { formatShape, sameShape } from "../tensor/descriptor.js";
import type { LazyTensor } from "../tensor/lazy-tensor.js";

/** The `found` of a problem with a tensor that is not in the file. */
export const MISSING = "no such tensor";

/** Why a layer cannot run: a tensor of the file, or an operation that the backend does not support. */
export interface LayerProblem {
  readonly kind: "tensor" | "operation";
  readonly layer: string;
  /** The tensor's name, or the operation's kind and the tensors it reads. */
  readonly subject: string;
  readonly expected: string;
  readonly found: string;
}

/** A weight that the graph needs, and its handle if the file has the tensor. */
interface PlannedWeight {
  readonly id: WeightId;
  readonly spec: WeightSpec;
  readonly tensor: LazyTensor | undefined;
}

/** The operations and weights of one segment of a program. */
export class LayerPlan {
  readonly name: string;
  readonly layer: number | undefined;
  readonly operations: readonly Operation[];
  readonly weights: readonly PlannedWeight[];
  readonly #backend: Backend;

  constructor(program: Program, segment: Segment, loader: GgufLoader, backend: Backend) {
    this.name = segment.name;
    this.layer = segment.layer;
    this.#backend = backend;
    const { firstOperation, operationCount } = segment;
    this.operations = program.operations.slice(firstOperation, firstOperation + operationCount);
    const ids = new Set(this.operations.flatMap((operation) => weightsOf(operation)));
    this.weights = [...ids].map((id) => {
      const spec = program.weights[id];
      return { id, spec, tensor: loader.has(spec.name) ? loader.lazy(spec.name, backend, spec) : undefined };
    });
  }

  /**
   * Every missing or wrong tensor, and every operation that the backend does not support; empty if there is no problem.
   */
  validate(): readonly LayerProblem[] {
    const problems = this.weights.flatMap((weight) => this.#weightProblems(weight));
    return problems.length > 0 ? problems : this.#unsupportedOperations();
  }

  #weightProblems({ spec, tensor }: PlannedWeight): readonly LayerProblem[] {
    const problem = (expected: string, found: string): LayerProblem[] => [
      { kind: "tensor", layer: this.name, subject: spec.name, expected, found },
    ];
    if (tensor === undefined) {
      return problem(formatShape(spec.shape), MISSING);
    }
    const { shape, layout } = tensor.descriptor;
    if (!sameShape(shape, spec.shape)) return problem(formatShape(spec.shape), formatShape(shape));
    if (spec.role === "vector" && layout.blockElements !== 1 && layout.supported)
      return problem("a vector of F32, F16 or BF16", layout.name);
    if (!layout.supported)
      return problem(`one of the types ${SUPPORTED.map(({ name }) => name).join(", ")}`, layout.name);
    return [];
  }

  #unsupportedOperations(): readonly LayerProblem[] {
    const byId = new Map(this.weights.map(({ id, tensor }) => [id, tensor]));
    return this.operations.flatMap((operation) => {
      const descriptors = weightsOf(operation).flatMap((id) => byId.get(id)?.descriptor ?? []);
      const support = this.#backend.supports(operation, descriptors);
      if (support === true) return [];
      const subject = [operation.kind, ...descriptors.map(({ name }) => name)].join(" ");
      const expected = `an operation that the backend ${this.#backend.description.name} supports`;
      return [{ kind: "operation", layer: this.name, subject, expected, found: support.reason }];
    });
  }
}
