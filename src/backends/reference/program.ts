// Runs a Program operation by operation. The kernel tables are the whole instruction set: an operation without an entry
// does not compile. Between layers the event loop runs, so a step never blocks the process for long.

import { setImmediate as nextTurn } from "node:timers/promises";
import { scratchBytes, type StepSize } from "../../graph/memory-plan.js";
import {
  type Operation,
  type OperationKind,
  type OperationOf,
  type WeightId,
  weightsOf,
} from "../../graph/operation.js";
import type { Program } from "../../graph/program.js";
import type { LazyTensor } from "../../tensor/lazy-tensor.js";
import { BackendError } from "../../errors.js";
import type { CompiledProgram, KvCache, OutputRow, RunOptions, StepInput } from "../contract.js";
import type { ActivationTable } from "./activations.js";
import { ATTENTION_KERNELS } from "./attention.js";
import { EXPERT_KERNELS } from "./experts.js";
import type { Kernel, KernelTable, StepContext } from "./kernel.js";
import { type KvStorage, ReferenceKvCache } from "./kv-cache.js";
import { MATMUL_KERNELS } from "./matmul.js";
import { Arena } from "./matrix.js";
import { readHidden, readScored } from "./outputs.js";
import { RECURRENT_KERNELS } from "./recurrent.js";
import { ROW_KERNELS } from "./row-kernels.js";
import { ReferenceTensor } from "./tensor.js";

const KERNELS: KernelTable<OperationKind> = {
  ...ROW_KERNELS,
  ...MATMUL_KERNELS,
  ...EXPERT_KERNELS,
  ...ATTENTION_KERNELS,
  ...RECURRENT_KERNELS,
};

/** A segment of the program, with the weights that must be resident before it runs. */
interface Layer {
  readonly operations: readonly Operation[];
  readonly weights: readonly LazyTensor[];
}

/** Interprets a program with the reference kernels. */
export class ReferenceProgram implements CompiledProgram {
  readonly #program: Program;
  readonly #weights: readonly LazyTensor[];
  readonly #layers: readonly Layer[];
  readonly #activations: ActivationTable;
  /** One arena per running step; a finished step leaves its arena for the next. */
  #idleArena: Arena | undefined;

  constructor(program: Program, weights: readonly LazyTensor[], activations: ActivationTable) {
    this.#program = program;
    this.#activations = activations;
    this.#weights = weights;
    this.#layers = program.segments.map(({ firstOperation, operationCount }) => {
      const operations = program.operations.slice(firstOperation, firstOperation + operationCount);
      return { operations, weights: operations.flatMap((operation) => weightsOf(operation)).map((id) => weights[id]) };
    });
  }

  scratchBytes(size: StepSize): number {
    return scratchBytes(this.#program.memory, size);
  }

  async run(step: StepInput, kvCache: KvCache | undefined, { signal }: RunOptions = {}): Promise<readonly OutputRow[]> {
    const cache = ownCache(kvCache);
    // Held from here on, even while the step waits for copies: the cache may be disposed meanwhile.
    const storage = cache?.storage ?? NO_CACHE;
    try {
      await cache?.order.enter();
      return await this.#step(step, storage, signal);
    } finally {
      cache?.order.leave();
    }
  }

  async #step(step: StepInput, cache: KvStorage, signal: AbortSignal | undefined): Promise<readonly OutputRow[]> {
    const arena = this.#idleArena ?? new Arena(this.#program);
    this.#idleArena = undefined;
    const outputs = step.outputs.map(({ row }) => row);
    const scored = [...step.outputs.keys()].filter((index) => step.outputs[index].want.kind !== "hidden");
    arena.resize({ tokens: step.tokens.length, outputs: outputs.length, scored: scored.length });
    const context: StepContext = {
      program: this.#program,
      step,
      selections: { outputs, scored },
      cache,
      activations: this.#activations,
      value: (id) => arena.matrix(id),
      weight: (id) => this.#weight(id),
      optional: (id) => (id === undefined ? undefined : this.#weight(id).values),
    };
    for (const layer of this.#layers) await runLayer(layer, context, signal);
    const rows = this.#readOutputs(context, scored);
    this.#idleArena = arena;
    return rows;
  }

  [Symbol.dispose](): void {
    this.#idleArena = undefined;
  }

  #readOutputs({ step, value }: StepContext, scored: readonly number[]): readonly OutputRow[] {
    const { hidden, logits } = this.#program;
    return step.outputs.map((request, index) => {
      if (request.want.kind === "hidden") return readHidden(value(hidden), index);
      if (logits === undefined) throw new BackendError("BACKEND_STEP", "[step] this program computes no logits");
      return readScored(request, value(logits), scored.indexOf(index));
    });
  }

  #weight(id: WeightId): ReferenceTensor {
    const tensor = this.#weights[id].resident;
    if (tensor instanceof ReferenceTensor) return tensor;
    throw new BackendError("BACKEND_STEP", `[reference] ${this.#weights[id].descriptor.name} is not loaded here`);
  }
}

const NO_CACHE: KvStorage = { layers: [], states: [], blockTokens: 1, quantize: () => {} };

function ownCache(kvCache: KvCache | undefined): ReferenceKvCache | undefined {
  if (kvCache === undefined || kvCache instanceof ReferenceKvCache) return kvCache;
  throw new BackendError("BACKEND_STEP", "[reference] the KV cache belongs to another backend");
}

async function runLayer(
  { operations, weights }: Layer,
  context: StepContext,
  signal: AbortSignal | undefined,
): Promise<void> {
  signal?.throwIfAborted();
  await Promise.all(weights.map((weight) => weight.load()));
  signal?.throwIfAborted();
  for (const operation of operations) runOperation(operation, context);
  await nextTurn();
}

function runOperation<Kind extends OperationKind>(
  operation: OperationOf<Kind> & Operation,
  context: StepContext,
): void {
  const kernel = KERNELS[operation.kind] as Kernel<Kind>;
  kernel(operation, context);
}
