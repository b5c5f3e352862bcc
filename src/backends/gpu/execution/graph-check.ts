// Verifies a captured graph: synthetic steps are computed launch by launch, then by successive replays of the graph,
// each into its own KV cache, and everything that a step writes is compared bit for bit: results, hidden states,
// logits, keys and values. Kernels are deterministic, so any difference is the driver's. The caches of sequences are
// not touched.
//
// Replays that read stale memory (ROCm/hip#3887, #3902) are right for the inputs they were captured with and fail only
// with others, so every replay that is compared has new inputs.

import { GpuError } from "../../../errors.js";
import type { KvCacheOptions } from "../../contract.js";
import type { DeviceBlock } from "../memory/device-memory.js";
import type { DeviceAddress, PinnedMemory } from "../drivers/shared/driver.js";
import type { LoadedKernel } from "../kernels/kernel-store.js";
import { kvLayout, stepCacheAt } from "../memory/kv-layout.js";
import type { LaunchSize } from "../lowering/launch.js";
import type { LoweringContext, ValuePlace } from "../lowering/context.js";
import { FLOAT_BYTES } from "../lowering/regions.js";
import { planOutputs } from "../lowering/output-rows.js";
import type { GpuRuntime } from "../memory/runtime.js";
import { CHECK_FILE } from "../drivers/shared/checks.js";
import { packStep } from "../lowering/step-layout.js";
import { hostAt } from "./step-memory.js";
import type { StepSession } from "./step-session.js";
import { TRIAL_ROUNDS, TrialSteps } from "./trial-step.js";

/** Maximum number of rows: errors of a graph depend on its launches, not on rows, and more rows only take longer. */
const MOST_ROWS = 4;
/** Maximum memory of a check; larger steps are tried with fewer rows. */
const MAX_BYTES = 256 << 20;
/** Maximum share of the free memory. */
const AVAILABLE_SHARE = 1 / 2;
/** Initial contents of both caches: small numbers in every type. */
const CACHE_BYTE = 0x2b;
const BLOCKS_PER_MULTIPROCESSOR = 8;
const WORD_BYTES = 4;
const ALIGNMENT_BYTES = 256;

interface GraphTrial {
  /** The context whose step buffer the launches read. */
  readonly context: LoweringContext;
  /** The size that was captured. */
  readonly size: LaunchSize;
  readonly hasCache: boolean;
  /** Queues the step launch by launch. */
  readonly launch: () => void;
  readonly replay: () => void;
}

/** `untried` if there is no memory for the check, or no room in the step buffer. */
type GraphVerdict = { readonly kind: "right" | "untried" } | { readonly kind: "wrong"; readonly reason: string };

/** A result of a step in scratch memory, with its size. */
interface Result {
  readonly address: DeviceAddress;
  readonly sizeBytes: number;
}

interface Buffers {
  /** Individual launches write to the first, replays to the second. */
  readonly caches: readonly [DeviceBlock, DeviceBlock] | undefined;
  readonly cacheBytes: number;
  /** Results of all rounds. */
  readonly kept: DeviceBlock;
  readonly roundBytes: number;
  readonly different: DeviceBlock;
  /** A packed step, then the count of differences. */
  readonly pinned: PinnedMemory;
}

/** Compares replays of one captured graph with the same launches one by one. */
export class GraphCheck {
  readonly #runtime: GpuRuntime;
  readonly #session: StepSession;
  readonly #trial: GraphTrial;
  readonly #steps: TrialSteps;

  constructor(runtime: GpuRuntime, session: StepSession, trial: GraphTrial) {
    this.#runtime = runtime;
    this.#session = session;
    this.#trial = trial;
    this.#steps = this.#affordable();
  }

  /** Runs the check. It overwrites the device's copy of the step: the caller uploads its own again. */
  async verdict(): Promise<GraphVerdict> {
    if (this.#stepBytes(this.#steps) > this.#session.memory.stepBytes) return { kind: "untried" };
    const kernel = (await this.#runtime.kernels.module(CHECK_FILE)).kernel("compare_words");
    let buffers: Buffers;
    try {
      buffers = this.#allocate();
    } catch (error) {
      if (error instanceof GpuError && error.code === "GPU_OUT_OF_MEMORY") return { kind: "untried" };
      throw error;
    }
    try {
      return await this.#compare(kernel, buffers);
    } finally {
      await this.#settle();
      this.#free(buffers);
    }
  }

  /** Waits for queued work, which must end before its memory is freed, even after a failure. */
  async #settle(): Promise<void> {
    try {
      await this.#session.finished();
    } catch (error) {
      this.#runtime.noticed(error);
    }
  }

  async #compare(kernel: LoadedKernel, buffers: Buffers): Promise<GraphVerdict> {
    const { device } = this.#runtime;
    const { stream } = this.#session;
    const { caches, cacheBytes, kept, roundBytes, different, pinned } = buffers;
    device.fill(different.address, 0, WORD_BYTES, stream);
    for (const cache of caches ?? []) device.fill(cache.address, CACHE_BYTE, cacheBytes, stream);
    const results = this.#results();
    const place = (round: number, byteOffset: number): DeviceAddress =>
      (kept.address + BigInt(roundBytes * round + byteOffset)) as DeviceAddress;
    for (let round = 0; round < TRIAL_ROUNDS; round++) {
      this.#bring(round, buffers, 0);
      this.#trial.launch();
      eachResult(results, ({ address, sizeBytes }, byteOffset) =>
        device.copyOnDevice(place(round, byteOffset), address, sizeBytes, stream),
      );
      await this.#session.finished();
    }
    for (let round = 0; round < TRIAL_ROUNDS; round++) {
      this.#bring(round, buffers, 1);
      this.#trial.replay();
      eachResult(results, ({ address, sizeBytes }, byteOffset) =>
        this.#queueCompare(kernel, place(round, byteOffset), address, sizeBytes, different),
      );
      await this.#session.finished();
    }
    if (caches !== undefined) this.#queueCompare(kernel, caches[0].address, caches[1].address, cacheBytes, different);
    device.copyToHost(hostAt(pinned, 0), different.address, WORD_BYTES, stream);
    await this.#session.finished();
    const count = new DataView(pinned.bytes.buffer, pinned.bytes.byteOffset).getUint32(0, true);
    if (count === 0) return { kind: "right" };
    return {
      kind: "wrong",
      reason: `replays of a captured graph and the same launches one by one differed in ${count} words`,
    };
  }

  /** Uploads the step of a round to where the launches read it. */
  #bring(round: number, { pinned, caches }: Buffers, which: 0 | 1): void {
    const { context } = this.#trial;
    const step = this.#trial.hasCache ? this.#steps.step(round) : { ...this.#steps.step(round), blockTables: [] };
    const outputs = planOutputs(step.outputs, context.options.fused.program.vocabularySize);
    const cache =
      caches === undefined
        ? { groups: [], blockTokens: 1 }
        : stepCacheAt(caches[which].address, this.#cacheOptions(this.#steps));
    const view = new DataView(pinned.bytes.buffer, pinned.bytes.byteOffset, pinned.bytes.byteLength);
    packStep(context.step, view, step, outputs, cache);
    const target = this.#session.memory.address({ space: "step", byteOffset: 0 });
    this.#runtime.device.copyToDevice(target, pinned.address, this.#stepBytes(this.#steps), this.#session.stream);
  }

  #queueCompare(
    kernel: LoadedKernel,
    left: DeviceAddress,
    right: DeviceAddress,
    sizeBytes: number,
    different: DeviceBlock,
  ): void {
    const { device } = this.#runtime;
    const words = Math.floor(sizeBytes / WORD_BYTES);
    const blocks = Math.max(
      1,
      Math.min(Math.ceil(words / kernel.threads), device.properties.multiprocessors * BLOCKS_PER_MULTIPROCESSOR),
    );
    const { block } = kernel.createArguments().set({ left, right, different: different.address, words, blocks });
    device.launch(
      kernel.handle,
      { grid: [blocks, 1, 1], threads: kernel.threads, sharedBytes: 0, dependent: false },
      block,
      this.#session.stream,
    );
  }

  #results(): readonly Result[] {
    const { hidden, logits, vocabularySize } = this.#trial.context.options.fused.program;
    const { regions } = this.#trial.context;
    const { outputs, scored } = this.#steps;
    const { memory } = this.#session;
    const addressOf = (place: ValuePlace["place"]): DeviceAddress => {
      if (place.space === "weight") throw new TypeError("results are in scratch memory");
      return memory.address(place);
    };
    const rows = (id: number, count: number): Result => {
      const { place, stride, width } = this.#trial.context.matrix(id);
      return { address: addressOf(place), sizeBytes: count === 0 ? 0 : ((count - 1) * stride + width) * FLOAT_BYTES };
    };
    const { resultWords } = planOutputs(this.#steps.step(0).outputs, vocabularySize);
    return [
      { address: addressOf(regions.results), sizeBytes: resultWords * FLOAT_BYTES },
      rows(hidden, outputs),
      ...(logits === undefined ? [] : [rows(logits, scored)]),
    ].filter(({ sizeBytes }) => sizeBytes > 0);
  }

  /**
   * As many rows as the graph has, up to a maximum; fewer if they would take too much memory or exceed the step buffer.
   */
  #affordable(): TrialSteps {
    const { context, size } = this.#trial;
    const { contextTokens, blockTokens } = context.options.limits;
    const { vocabularySize } = context.options.fused.program;
    const mostBytes = Math.min(MAX_BYTES, this.#runtime.memory.availableBytes * AVAILABLE_SHARE);
    for (let rows = Math.max(1, Math.min(size.tokens, MOST_ROWS)); ; rows = Math.floor(rows / 2)) {
      const steps = new TrialSteps(size, rows, { vocabularySize, contextTokens, blockTokens });
      const fits =
        2 * this.#cacheBytes(steps) + TRIAL_ROUNDS * rowBytes(context, steps) <= mostBytes &&
        this.#stepBytes(steps) <= this.#session.memory.stepBytes;
      if (fits || rows === 1) return steps;
    }
  }

  #cacheBytes(steps: TrialSteps): number {
    return this.#trial.hasCache ? kvLayout(this.#cacheOptions(steps)).sizeBytes : 0;
  }

  #cacheOptions({ blocks, sequences: stateSlots }: TrialSteps): KvCacheOptions {
    const { fused, limits } = this.#trial.context.options;
    const { kvCacheType: type, blockTokens } = limits;
    return { ...fused.program.kv, type, blockTokens, blocks, stateSlots };
  }

  #stepBytes(steps: TrialSteps): number {
    const { context } = this.#trial;
    return context.step.usedBytes(this.#trial.hasCache ? steps.tableEntries : 0, 0);
  }

  #allocate(): Buffers {
    const { memory, device } = this.#runtime;
    const cacheBytes = this.#cacheBytes(this.#steps);
    const roundBytes = this.#results().reduce((total, { sizeBytes }) => total + alignedBytes(sizeBytes), 0);
    const taken: DeviceBlock[] = [];
    const take = (sizeBytes: number): DeviceBlock => {
      const block = memory.allocate(Math.max(1, sizeBytes));
      taken.push(block);
      return block;
    };
    try {
      const caches = cacheBytes === 0 ? undefined : ([take(cacheBytes), take(cacheBytes)] as const);
      return {
        caches,
        cacheBytes,
        kept: take(roundBytes * TRIAL_ROUNDS),
        roundBytes,
        different: take(WORD_BYTES),
        pinned: device.allocateHost(this.#stepBytes(this.#steps)),
      };
    } catch (error) {
      for (const block of taken) memory.free(block);
      throw this.#runtime.noticed(error);
    }
  }

  #free({ caches, kept, different, pinned }: Buffers): void {
    this.#runtime.release(() => {
      for (const block of [...(caches ?? []), kept, different]) this.#runtime.memory.free(block);
      this.#runtime.device.freeHost(pinned);
    });
  }
}

/** Visits each result with its offset among a round's stored results. */
function eachResult(results: readonly Result[], visit: (result: Result, byteOffset: number) => void): void {
  let byteOffset = 0;
  for (const result of results) {
    visit(result, byteOffset);
    byteOffset += alignedBytes(result.sizeBytes);
  }
}

function alignedBytes(sizeBytes: number): number {
  return Math.ceil(sizeBytes / ALIGNMENT_BYTES) * ALIGNMENT_BYTES;
}

/** Approximate size of the hidden states and logits of one round. */
function rowBytes({ options }: LoweringContext, { outputs, scored }: TrialSteps): number {
  const { hidden, logits, values } = options.fused.program;
  return (outputs * values[hidden].width + (logits === undefined ? 0 : scored * values[logits].width)) * FLOAT_BYTES;
}
