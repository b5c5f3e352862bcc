// Runs a Program operation by operation. The table below is the whole instruction set: an operation that has no entry
// does not compile. Between layers the event loop gets a turn, so a step never blocks the process for long.

import { setImmediate as nextTurn } from "node:timers/promises";
import { scratchBytes, type StepSize } from "../../graph/memory-plan.js";
import {
  type Operation,
  type OperationKind,
  type OperationOf,
  type WeightId,
  weightsOf,
} from "../../graph/operation.js";
import type { Program, RowSymbol } from "../../graph/program.js";
import type { LazyTensor } from "../../tensor/lazy-tensor.js";
import { BackendError } from "../../errors.js";
import type { CompiledProgram, KvCache, OutputRow, RunOptions, StepInput } from "../contract.js";
import { attention, writeKv } from "./attention.js";
import { type KvStorage, ReferenceKvCache } from "./kv-cache.js";
import { matmul } from "./matmul.js";
import { Arena, type Matrix } from "./matrix.js";
import { readHidden, readScored } from "./outputs.js";
import { add, embed, glu, quantizeActivations, rmsNorm, rope, selectRows } from "./row-kernels.js";
import { ReferenceTensor } from "./tensor.js";

interface StepContext {
  readonly program: Program;
  readonly step: StepInput;
  /** Which rows of its input each kind of selection keeps. */
  readonly selections: Readonly<Record<Exclude<RowSymbol, "tokens">, readonly number[]>>;
  readonly cache: KvStorage;
  readonly value: (id: number) => Matrix;
  readonly weight: (id: WeightId) => ReferenceTensor;
  readonly optional: (id: WeightId | undefined) => Float32Array | undefined;
}

type Kernel<Kind extends OperationKind> = (operation: OperationOf<Kind>, context: StepContext) => void;

const KERNELS: { readonly [Kind in OperationKind]: Kernel<Kind> } = {
  embed: (operation, { step, weight, value }) =>
    embed(operation, step.tokens, weight(operation.table).values, value(operation.out)),
  "rms-norm": (operation, { weight, value }) =>
    rmsNorm(operation, value(operation.input), weight(operation.weight).values, value(operation.out)),
  "quantize-activations": ({ input, out }, { value }) => quantizeActivations(value(input), value(out)),
  matmul: (operation, { weight, optional, value }) =>
    matmul(
      value(operation.input),
      weight(operation.weight),
      {
        scale: optional(operation.scale)?.[0] ?? 1,
        bias: optional(operation.bias),
        softCap: operation.softCap,
      },
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
    writeKv(step, cache, layer, value(key), value(stored)),
  attention: (operation, { step, cache, optional, value }) =>
    attention(
      operation,
      { step, cache, sinks: optional(operation.sinks) },
      value(operation.query),
      value(operation.out),
    ),
  glu: ({ activation, gate, up, out }, { value }) => glu(activation, value(gate), value(up), value(out)),
  add: ({ left, right, out }, { value }) => add(value(left), value(right), value(out)),
  "select-rows": ({ input, out }, { program, selections, value }) => {
    const { rows } = program.values[out];
    if (rows !== "tokens") selectRows(selections[rows], value(input), value(out));
  },
};

/** A segment of the program, with what must be resident before it runs. */
interface Layer {
  readonly operations: readonly Operation[];
  readonly weights: readonly LazyTensor[];
}

export class ReferenceProgram implements CompiledProgram {
  readonly #program: Program;
  readonly #weights: readonly LazyTensor[];
  readonly #layers: readonly Layer[];
  /** One arena per step under way; finished steps leave theirs for the next. */
  #idleArena: Arena | undefined;

  constructor(program: Program, weights: readonly LazyTensor[]) {
    this.#program = program;
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
    // From here on, while it waits for copies too: the cache may be disposed meanwhile.
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

const NO_CACHE: KvStorage = { keys: [], values: [], keyRow: 0, valueRow: 0, blockTokens: 1, round: () => {} };

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
