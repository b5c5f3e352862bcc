// A compiled program in the addon. A step is one call: inputs are joined to flat arrays, the addon copies them, and
// everything else runs off this thread.

import type { StepSize } from "../../graph/memory-plan.js";
import type { DeviceTensor } from "../../tensor/device-tensor.js";
import type { LazyTensor } from "../../tensor/lazy-tensor.js";
import { BackendError } from "../../errors.js";
import { chooseToken, rowForToken } from "../../sampler/token-choice.js";
import type { CompiledProgram, KvCache, OutputRequest, OutputRow, RunOptions, StepInput } from "../contract.js";
import type {
  NativeOutputRequest,
  NativeOutputRow,
  NativeProfileEntry,
  NativeProgram,
  NativeStep,
  NativeStepInput,
} from "./native-bindings.js";
import { CpuKvCache } from "./kv-cache.js";
import { isNativeError, native, translateNativeError } from "./native-error.js";
import { CpuTensor } from "./tensor.js";
import type { TuneOptions, TuneReport } from "../tuning.js";

/** Tunes a program: what was found, and the program with it, if it is another. */
export type ProgramTune = (
  options: TuneOptions,
) => Promise<{ readonly report: TuneReport; readonly replacement?: NativeProgram }>;

/** A program compiled by the addon; each step is one native call. */
export class CpuProgram implements CompiledProgram {
  #native: NativeProgram;
  readonly #weights: readonly LazyTensor[];
  readonly #vocabularySize: number;
  readonly #tune: ProgramTune | undefined;
  /** The weights that the addon is bound to; tensors that were evicted and loaded again have other locations. */
  #bound: readonly CpuTensor[] = [];

  /** `tune` gives the program that takes this one's place if other settings are faster. */
  constructor(compiled: NativeProgram, weights: readonly LazyTensor[], vocabularySize: number, tune?: ProgramTune) {
    this.#native = compiled;
    this.#weights = weights;
    this.#vocabularySize = vocabularySize;
    this.#tune = tune;
  }

  async tune(options: TuneOptions): Promise<TuneReport> {
    if (this.#tune === undefined) throw new TypeError("this program is not tuned");
    const { report, replacement } = await this.#tune(options);
    if (replacement !== undefined) {
      // Steps in flight keep what they need of the old one.
      this.#native.dispose();
      this.#native = replacement;
      this.#bound = [];
    }
    return report;
  }

  scratchBytes({ tokens, outputs, scored }: StepSize): number {
    return native("BACKEND_UNSUPPORTED", () => this.#native.scratchBytes(tokens, outputs, scored));
  }

  profile(): readonly NativeProfileEntry[] {
    return this.#native.profile();
  }

  async run(step: StepInput, kvCache: KvCache | undefined, { signal }: RunOptions = {}): Promise<readonly OutputRow[]> {
    signal?.throwIfAborted();
    const running = await this.#launch(step, ownCache(kvCache), signal);
    const cancel = (): void => running.cancel();
    signal?.addEventListener("abort", cancel, { once: true });
    if (signal?.aborted === true) cancel();
    try {
      return withTokens(step, await running.result);
    } catch (error) {
      if (isNativeError(error) && error.code === "CANCELLED") signal?.throwIfAborted();
      throw translateNativeError(error, "BACKEND_STEP");
    } finally {
      signal?.removeEventListener("abort", cancel);
    }
  }

  [Symbol.dispose](): void {
    this.#native.dispose();
  }

  /** Returns when the step is in the addon's queue, which keeps the order of steps from then on. */
  async #launch(step: StepInput, cache: CpuKvCache | undefined, signal: AbortSignal | undefined): Promise<NativeStep> {
    // Before waiting: the cache may be disposed meanwhile.
    const nativeCache = cache?.native;
    const entered = cache?.order.enter();
    try {
      if (entered !== undefined) await entered;
      if (!this.#isBound()) await this.#bind(signal);
      signal?.throwIfAborted();
      return native("BACKEND_STEP", () => this.#native.run(nativeStep(step, this.#vocabularySize), nativeCache));
    } finally {
      cache?.order.leave();
    }
  }

  #isBound(): boolean {
    return (
      this.#bound.length === this.#weights.length &&
      this.#weights.every(({ resident }, id) => resident === this.#bound[id])
    );
  }

  async #bind(signal: AbortSignal | undefined): Promise<void> {
    const bound: CpuTensor[] = [];
    for (const weight of this.#weights) {
      signal?.throwIfAborted();
      bound.push(ownTensor(await weight.load()));
    }
    native("BACKEND_STEP", () => this.#native.bind(bound.map(({ location }) => location)));
    this.#bound = bound;
  }
}

function ownTensor(tensor: DeviceTensor): CpuTensor {
  if (tensor instanceof CpuTensor) return tensor;
  throw new BackendError("BACKEND_STEP", `[cpu] ${tensor.descriptor.name} belongs to another backend`);
}

function ownCache(kvCache: KvCache | undefined): CpuKvCache | undefined {
  if (kvCache === undefined || kvCache instanceof CpuKvCache) return kvCache;
  throw new BackendError("BACKEND_STEP", "[cpu] the KV cache belongs to another backend");
}

function nativeStep(step: StepInput, vocabularySize: number): NativeStepInput {
  const { tokens, positions, sequenceOffsets, blockTables, outputs, stateReads, stateWrites } = step;
  const tableOffsets = new Int32Array(blockTables.length + 1);
  for (const [index, table] of blockTables.entries()) tableOffsets[index + 1] = tableOffsets[index] + table.length;
  const joined = new Int32Array(tableOffsets[blockTables.length]);
  for (const [index, table] of blockTables.entries()) joined.set(table, tableOffsets[index]);
  return {
    tokens,
    positions,
    sequenceOffsets,
    blockTables: joined,
    tableOffsets,
    ...(stateReads === undefined ? {} : { stateReads }),
    ...(stateWrites === undefined ? {} : { stateWrites }),
    outputs: outputs.map((output) => nativeOutput(output, vocabularySize)),
  };
}

/** Tokens are chosen here, from rows that the addon computes. */
function nativeOutput({ row, want, bias, allowMask }: OutputRequest, vocabularySize: number): NativeOutputRequest {
  const computed = want.kind === "token" ? rowForToken(want, vocabularySize) : want;
  return {
    row,
    want: computed.kind,
    count: computed.kind === "candidates" ? computed.count : 0,
    biasIds: bias?.ids,
    biasValues: bias?.values,
    allowMask,
  };
}

function withTokens({ outputs }: StepInput, rows: readonly NativeOutputRow[]): readonly OutputRow[] {
  return rows.map((row, index) => {
    const want = outputs[index]?.want;
    const isSampled = want?.kind === "token" && (row.kind === "candidates" || row.kind === "logits");
    return isSampled ? chooseToken(want, row) : row;
  });
}
