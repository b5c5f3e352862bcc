// One synthetic step of a given size, as a stage for trying kernels: launches run one by one up to the kernel in
// question, so that it finds real inputs in scratch memory, and stop there. Sequences are in a small KV cache of its own.

import type { KvCacheOptions, StepInput } from "../../contract.js";
import type { LazyTensor } from "../../../tensor/lazy-tensor.js";
import type { DeviceBlock } from "../memory/device-memory.js";
import { kvLayout, SPLIT_POSITIONS, type StepCache, stepCacheAt, TILE_TOKENS } from "../memory/kv-layout.js";
import type { GpuRuntime } from "../memory/runtime.js";
import type { LoweringContext } from "../lowering/context.js";
import { isNeeded, Launch, type LaunchSize, type LaunchSpec } from "../lowering/launch.js";
import { lowerStep } from "../lowering/lowering.js";
import { planOutputs } from "../lowering/output-rows.js";
import { exactSize } from "../lowering/step-bucket.js";
import { isLaunch } from "../lowering/step-item.js";
import { packStep } from "../lowering/step-layout.js";
import type { LaunchRunner } from "./step-plan.js";
import { stepClass } from "./step-plans.js";
import type { StepSession } from "./step-session.js";
import { TrialSteps } from "./trial-step.js";

/** Initial contents of the KV cache: small numbers in every type. */
const CACHE_BYTE = 0x2b;

/** How many sequences decode, or how many tokens of one prompt are computed. */
export interface TuningSize {
  readonly tokens: number;
  readonly isPrompt: boolean;
  /** Positions before these tokens, as far as there is room; by default there are few. */
  readonly depth?: number;
}

/** What a tuner uses of a program. */
export interface TuningHost {
  readonly runtime: GpuRuntime;
  readonly context: LoweringContext;
  readonly weights: readonly LazyTensor[];
  /** Runs work between two steps, with their stream and memory; nothing else uses these meanwhile. */
  alone<Result>(work: (session: StepSession, runner: LaunchRunner) => Promise<Result>): Promise<Result>;
}

/** A step that can be run up to any of its launches. */
export class TuningStep implements Disposable {
  readonly size: LaunchSize;
  /** What the step consists of with the present choices; of matmuls of a BLAS library there are none. */
  readonly specs: readonly LaunchSpec[];
  readonly #host: TuningHost;
  readonly #step: StepInput;
  readonly #trial: TrialSteps;
  readonly #launches: readonly Launch[];
  #loading: Promise<unknown> | undefined;
  #cache: DeviceBlock | undefined;
  #disposed = false;

  constructor(host: TuningHost, { tokens, isPrompt, depth = 0 }: TuningSize) {
    this.#host = host;
    const { limits, fused, deterministic } = host.context.options;
    const { contextTokens, blockTokens } = limits;
    const wanted = exactSize({
      tokens,
      outputs: isPrompt ? 1 : tokens,
      scored: isPrompt ? 1 : tokens,
      sequences: isPrompt ? 1 : tokens,
      tiles: isPrompt ? Math.ceil(tokens / TILE_TOKENS) : tokens,
      longest: Math.min(Math.max(SPLIT_POSITIONS, depth + (isPrompt ? tokens : 1)), contextTokens),
      longestRun: isPrompt ? tokens : 1,
    });
    this.#trial = new TrialSteps(wanted, tokens, {
      vocabularySize: fused.program.vocabularySize,
      contextTokens,
      blockTokens,
      separate: depth > 0,
    });
    this.#step = this.#trial.step(0);
    this.size = { ...wanted, tokens: this.#step.tokens.length, outputs: this.#step.outputs.length };
    const lowering = stepClass(this.size, { deterministic, blas: false });
    this.specs = lowerStep(host.context.holding(this.size), lowering).filter(isLaunch);
    this.#launches = this.specs.map((spec) => new Launch(spec));
  }

  /** Loads the kernels of the step. */
  load(): Promise<unknown> {
    const { kernels, device } = this.#host.runtime;
    const needed = this.#launches.filter(({ spec }) => isNeeded(spec, this.size));
    this.#loading ??= Promise.all(needed.map((launch) => launch.load(this.size, kernels, device)));
    return this.#loading;
  }

  /** Runs the launches before `index`, after `load`, then `work`: what it queues finds the inputs of that launch. */
  async upTo<Result>(
    index: number,
    work: (session: StepSession, runner: LaunchRunner) => Promise<Result>,
  ): Promise<Result> {
    const { device } = this.#host.runtime;
    return await this.#host.alone(async (session, runner) => {
      await this.#bring(session);
      let dependent = false;
      for (const launch of this.#launches.slice(0, index)) {
        if (!isNeeded(launch.spec, this.size)) continue;
        const coming = runner.bring(launch.weights);
        if (coming !== undefined) {
          await coming;
          dependent = false;
        }
        launch.bind((place) => runner.addressOf(place), this.size);
        launch.run(device, this.size, runner.stream, dependent);
        dependent = true;
      }
      return await work(session, runner);
    });
  }

  /** Bytes of the KV cache and the recurrent states that the step needs. */
  get cacheBytes(): number {
    return kvLayout(this.#cacheOptions).sizeBytes;
  }

  [Symbol.dispose](): void {
    this.#disposed = true;
    const cache = this.#cache;
    this.#cache = undefined;
    if (cache !== undefined) this.#host.runtime.release(() => this.#host.runtime.memory.free(cache));
  }

  /** Uploads the step's input to where launches read it, and clears what launches expect to be clear. */
  async #bring({ memory, stream }: StepSession): Promise<void> {
    const { context, weights, runtime } = this.#host;
    const { step: layout } = context.holding(this.size);
    const { regions, options } = context;
    const outputs = planOutputs(this.#step.outputs, options.fused.program.vocabularySize);
    const usedBytes = layout.usedBytes(this.#trial.tableEntries, outputs.payloadWords);
    if (usedBytes > memory.stepBytes) throw new RangeError("the step buffer is too small for this step");
    const cache = this.#stepCache(stream);
    const step = cache.groups.length === 0 ? { ...this.#step, blockTables: [] } : this.#step;
    await memory.hostRows?.gather(step.tokens, weights);
    packStep(layout, memory.staging, step, outputs, cache);
    memory.copyStep(usedBytes, stream);
    // A kernel that was tried and rejected may have left its counters anywhere.
    if (regions.tileArrivalBytes > 0 && regions.tileArrivals.space !== "weight")
      runtime.device.fill(memory.address(regions.tileArrivals), 0, regions.tileArrivalBytes, stream);
  }

  get #cacheOptions(): KvCacheOptions {
    const { fused, limits } = this.#host.context.options;
    const { blocks, sequences: stateSlots } = this.#trial;
    const { kvCacheType: type, blockTokens } = limits;
    return { ...fused.program.kv, type, blockTokens, blocks, stateSlots };
  }

  #stepCache(stream: StepSession["stream"]): StepCache {
    const { runtime } = this.#host;
    const options = this.#cacheOptions;
    const { sizeBytes } = kvLayout(options);
    if (sizeBytes === 0) return { groups: [], blockTokens: 1 };
    if (this.#disposed) throw new TypeError("the step was disposed");
    if (this.#cache === undefined) {
      this.#cache = runtime.allocate("a KV cache for tuning", sizeBytes);
      runtime.device.fill(this.#cache.address, CACHE_BYTE, sizeBytes, stream);
    }
    return stepCacheAt(this.#cache.address, options);
  }
}
