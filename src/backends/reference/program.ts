// Runs a Program operation by operation. The table below is the whole instruction set: an operation that has no entry
// does not compile. Between layers the event loop gets a turn, so a step never blocks the process for long.

import { setImmediate as nextTurn } from "node:timers/promises";
import { type Operation, type OperationKind, type OperationOf, type WeightId, weightsOf } from "../../graph/operation.js";
import type { Program, Segment } from "../../graph/program.js";
import type { LazyTensor } from "../../tensor/lazy-tensor.js";
import { BackendError } from "../../errors.js";
import type { CompiledProgram, KvCache, OutputRow, StepInput } from "../contract.js";
import { attention, writeKv } from "./attention.js";
import { ReferenceKvCache } from "./kv-cache.js";
import { linear } from "./linear.js";
import { Arena, type Matrix } from "./matrix.js";
import { readOutput } from "./outputs.js";
import { add, embed, rmsNorm, rope, roundActivations, selectRows, swiglu } from "./row-kernels.js";
import { ReferenceTensor } from "./tensor.js";

interface StepContext {
  readonly program: Program;
  readonly step: StepInput;
  readonly outputRows: readonly number[];
  readonly cache: () => ReferenceKvCache;
  readonly value: (id: number) => Matrix;
  readonly weight: (id: WeightId) => ReferenceTensor;
  readonly optional: (id: WeightId | undefined) => Float32Array | undefined;
}

type Kernel<Kind extends OperationKind> = (operation: OperationOf<Kind>, context: StepContext) => void;

const KERNELS: { readonly [Kind in OperationKind]: Kernel<Kind> } = {
  embed: ({ table, out }, { step, weight, value }) => embed(step.tokens, weight(table).values, value(out)),
  "rms-norm": (operation, { weight, value }) =>
    rmsNorm(operation, value(operation.input), weight(operation.weight).values, value(operation.out)),
  "round-activations": ({ input, out }, { value }) => roundActivations(value(input), value(out)),
  linear: (operation, { weight, optional, value }) =>
    linear(
      value(operation.input),
      weight(operation.weight),
      { scale: optional(operation.scale)?.[0] ?? 1, bias: optional(operation.bias) },
      value(operation.out),
    ),
  rope: (operation, { program, step, optional, value }) =>
    rope(
      operation,
      program.ropes[operation.rope],
      optional(operation.factors),
      step.positions,
      value(operation.input),
      value(operation.out),
    ),
  "kv-write": ({ layer, key, value: stored }, { step, cache, value }) =>
    writeKv(step, cache(), layer, value(key), value(stored)),
  attention: (operation, { step, cache, value }) =>
    attention(operation, step, cache(), value(operation.query), value(operation.out)),
  swiglu: ({ gate, up, out }, { value }) => swiglu(value(gate), value(up), value(out)),
  add: ({ left, right, out }, { value }) => add(value(left), value(right), value(out)),
  "select-rows": ({ input, out }, { outputRows, value }) => selectRows(outputRows, value(input), value(out)),
};

export class ReferenceProgram implements CompiledProgram {
  readonly #program: Program;
  readonly #weights: readonly LazyTensor[];
  /** One arena per step under way; finished steps leave theirs for the next. */
  #idleArena: Arena | undefined;

  constructor(program: Program, weights: readonly LazyTensor[]) {
    this.#program = program;
    this.#weights = weights;
  }

  async run(step: StepInput, kvCache: KvCache | undefined): Promise<readonly OutputRow[]> {
    const arena = this.#idleArena ?? new Arena(this.#program);
    this.#idleArena = undefined;
    arena.resize({ tokens: step.tokens.length, outputs: step.outputs.length });
    const context = this.#context(step, kvCache, arena);
    for (const segment of this.#program.segments) await this.#runSegment(segment, context);
    const { hidden, logits } = this.#program;
    const outputs = step.outputs.map((request, index) =>
      readOutput(request, index, context.value(hidden), logits === undefined ? undefined : context.value(logits)),
    );
    this.#idleArena = arena;
    return outputs;
  }

  [Symbol.dispose](): void {
    this.#idleArena = undefined;
  }

  async #runSegment({ firstOperation, operationCount }: Segment, context: StepContext): Promise<void> {
    const operations = this.#program.operations.slice(firstOperation, firstOperation + operationCount);
    const ids = operations.flatMap((operation) => weightsOf(operation));
    await Promise.all(ids.map((id) => this.#weights[id].load()));
    for (const operation of operations) runOperation(operation, context);
    await nextTurn();
  }

  #context(step: StepInput, kvCache: KvCache | undefined, arena: Arena): StepContext {
    const weight = (id: WeightId): ReferenceTensor => {
      const tensor = this.#weights[id].resident;
      if (tensor instanceof ReferenceTensor) return tensor;
      throw new BackendError("BACKEND_STEP", `[reference] ${this.#weights[id].descriptor.name} is not loaded here`);
    };
    return {
      program: this.#program,
      step,
      outputRows: step.outputs.map(({ row }) => row),
      cache: () => {
        if (kvCache instanceof ReferenceKvCache) return kvCache;
        throw new BackendError("BACKEND_STEP", "[reference] the KV cache belongs to another backend");
      },
      value: (id) => arena.matrix(id),
      weight,
      optional: (id) => (id === undefined ? undefined : weight(id).values),
    };
  }
}

function runOperation<Kind extends OperationKind>(operation: OperationOf<Kind> & Operation, context: StepContext): void {
  const kernel = KERNELS[operation.kind] as Kernel<Kind>;
  kernel(operation, context);
}
