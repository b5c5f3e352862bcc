// A program's part in a warm-up: the list of steps, and all preparation that needs no step. Kernels are compiled and
// loaded while steps run; the BLAS library's matmuls are rehearsed between two steps. A program that is not warmed up
// prepares for long prompts as soon as it is idle.

import type { StepShape, WarmUpStep } from "../../warm-up-step.js";
import type { KernelPrewarm } from "../kernels/prewarm.js";
import { TILE_TOKENS } from "../memory/kv-layout.js";
import type { LaunchSize } from "../lowering/launch.js";
import type { LoweringContext } from "../lowering/context.js";
import { bucketKey, bucketSize, exactSize } from "../lowering/step-bucket.js";
import type { StepGraphs } from "./step-graphs.js";
import type { StepMemory } from "./step-memory.js";
import type { LaunchRunner } from "./step-plan.js";
import type { StepPlans } from "./step-plans.js";
import { warmUpSteps } from "./warm-up-steps.js";

/** Runs `work` between two steps, after the first one; resolves when what it queued has finished. */
type Alone = (work: (runner: LaunchRunner, memory: StepMemory) => void) => Promise<unknown>;

/** A program without a step for this time is idle, and prepares for longer prompts than those before. */
const IDLE_MS = 50;

/** Prepares kernels, BLAS algorithms and graphs for one size of step at a time. */
export class ProgramWarmUp implements Disposable {
  readonly #context: LoweringContext;
  readonly #plans: StepPlans;
  readonly #prewarm: KernelPrewarm;
  readonly #graphs: StepGraphs;
  readonly #alone: Alone;
  /** Runs out when the program is idle. */
  #idle: NodeJS.Timeout | undefined;

  constructor(context: LoweringContext, plans: StepPlans, prewarm: KernelPrewarm, graphs: StepGraphs, alone: Alone) {
    this.#context = context;
    this.#plans = plans;
    this.#prewarm = prewarm;
    this.#graphs = graphs;
    this.#alone = alone;
  }

  steps(sequences: number): readonly WarmUpStep[] {
    return warmUpSteps({
      ...this.#context.options.limits,
      sequences,
      leastBlas: this.#plans.mayUseBlas ? this.#plans.leastBlasBatch : undefined,
    });
  }

  async prepare(shape: StepShape): Promise<void> {
    const size = sizeOf(shape);
    this.#prewarm.hurry();
    await this.#plans.opening(size)?.catch(() => {});
    await this.#prewarm.add(() => this.#plans.missingFor(size));
    const key = this.#graphKey(size);
    if (key !== undefined) this.#graphs.expect(key);
  }

  /** Prepares for long prompts as soon as the program is idle, unless a warm-up does. Call after the first step. */
  prepareWhenIdle(isIdle: () => boolean): void {
    const { maxTokens } = this.#context.options.limits;
    if (maxTokens < this.#plans.leastBlasBatch || !this.#plans.mayUseBlas || this.#plans.blas !== undefined) return;
    const prepare = (): void => {
      if (!isIdle()) return this.stepEnded();
      this.#idle = undefined;
      const longest = { decoding: 0, prompt: maxTokens, longest: maxTokens };
      // The step that needs it reports a failure.
      void this.#prepareLibrary(longest, isIdle).catch(() => {});
    };
    this.#idle = setTimeout(prepare, IDLE_MS).unref();
  }

  /** The program is not idle yet. */
  stepEnded(): void {
    this.#idle?.refresh();
  }

  async rehearse(shape: StepShape): Promise<void> {
    // Errors are reported by the step that needs the result.
    await this.#alone((runner, memory) => this.#plans.rehearseBlas(sizeOf(shape), runner, memory)).catch(() => {});
    this.#plans.keepChoices();
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#idle);
    this.#idle = undefined;
  }

  /** Opens the BLAS library, and rehearses its matmuls if no step would wait for that. */
  async #prepareLibrary(longest: StepShape, isIdle: () => boolean): Promise<void> {
    const size = sizeOf(longest);
    await this.#plans.opening(size);
    if (this.#plans.blas === undefined) return;
    await this.#prewarm.add(() => this.#plans.missingFor(size));
    if (isIdle()) await this.rehearse(longest);
  }

  /** The key under which a step of this size is replayed; undefined if it never is. */
  #graphKey(size: LaunchSize): string | undefined {
    const { limits } = this.#context.options;
    const maxTokens = Math.min(limits.maxTokens, this.#context.regions.attention.tokens);
    const bucket = bucketSize(size, { maxTokens, maxOutputs: limits.maxOutputs });
    return bucket === undefined ? undefined : `${this.#plans.nameFor(size)} ${bucketKey(bucket)}`;
  }
}

function sizeOf({ decoding, prompt, longest }: StepShape): LaunchSize {
  const sequences = decoding + (prompt > 0 ? 1 : 0);
  const counts = { tokens: decoding + prompt, sequences, outputs: sequences, scored: sequences };
  const tiles = decoding + Math.ceil(prompt / TILE_TOKENS);
  return exactSize({ ...counts, tiles, longest: Math.max(longest, prompt), longestRun: Math.max(1, prompt) });
}
