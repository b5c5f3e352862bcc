// What a model's first requests would stop for, done before they come: every kind of step that the backend names is
// prepared and then run once, on made-up tokens in blocks that no sequence holds. Requests go first: a step of the warm-up
// runs while nothing else does, or now and then between theirs, so that a busy server gets to its end, too.
// Invariants: it never fails, because what fails here fails again where somebody is told; blocks it took are given back.

import { setTimeout as pause } from "node:timers/promises";
import type { KvCache, OutputRow, RunOptions, StepInput, StepShape, WarmUpStep } from "../backends/contract.js";
import type { BlockPool } from "../kv-cache/block-pool.js";
import { warmUpInput } from "./warm-up-input.js";

/** What a warm-up needs of a plan. */
export interface WarmUpPlan {
  warmUpSteps(sequences: number): readonly WarmUpStep[];
  prepareWarmUp(shape: StepShape): Promise<void>;
  rehearse(shape: StepShape): Promise<void>;
  step(step: StepInput, kvCache: KvCache, options: RunOptions): Promise<readonly OutputRow[]>;
}

export interface WarmUpContext {
  readonly plan: WarmUpPlan;
  readonly kvCache: KvCache;
  readonly pool: BlockPool;
  readonly vocabularySize: number;
  /** Sequences that run at once. */
  readonly sequences: number;
  /** Whether requests are being computed or wait to be. */
  readonly isBusy: () => boolean;
}

export interface WarmUpProgress {
  /** Of `steps`, those that are done; some may have been left out for want of blocks. */
  readonly done: number;
  readonly steps: number;
  readonly milliseconds: number;
}

export interface WarmUpOptions {
  readonly onProgress?: (progress: WarmUpProgress) => void;
}

/** Those who waited for the model to be loaded come right after. */
const FIRST_PAUSE_MS = 10;
/** How long requests keep a step of the warm-up waiting, and how often it is looked whether they are done. */
const LONGEST_WAIT_MS = 100;
const LOOK_MS = 5;

export class WarmUp {
  readonly #context: WarmUpContext;
  #progress: WarmUpProgress = { done: 0, steps: 0, milliseconds: 0 };

  constructor(context: WarmUpContext) {
    this.#context = context;
  }

  /** So far. */
  get progress(): WarmUpProgress {
    return this.#progress;
  }

  /** Resolves when it is done, or cut short by the signal. */
  async run(signal: AbortSignal, { onProgress }: WarmUpOptions = {}): Promise<void> {
    const { plan, sequences } = this.#context;
    const startMs = performance.now();
    const steps = plan.warmUpSteps(sequences);
    const report = (done: number): void => {
      this.#progress = { done, steps: steps.length, milliseconds: performance.now() - startMs };
      onProgress?.(this.#progress);
    };
    if (steps.length === 0) return;
    report(0);
    await pause(FIRST_PAUSE_MS);
    if (signal.aborted) return;
    // All at once, in order: compilers have work for every processor from the start.
    const prepared = steps.map((step) => plan.prepareWarmUp(step).catch(() => {}));
    for (const [index, step] of steps.entries()) {
      await prepared[index];
      await this.#turn(signal);
      if (signal.aborted) return;
      await (step.runs ? this.#runStep(step, signal) : plan.rehearse(step).catch(() => {}));
      report(index + 1);
    }
  }

  async #runStep(shape: StepShape, signal: AbortSignal): Promise<void> {
    const { pool, plan, kvCache, vocabularySize } = this.#context;
    const input = warmUpInput(shape, pool, vocabularySize);
    if (input === undefined) return;
    try {
      await plan.step(input.step, kvCache, { signal });
    } catch {
      // A request that needs the same is told.
    } finally {
      pool.give(input.blocks);
    }
  }

  async #turn(signal: AbortSignal): Promise<void> {
    const untilMs = performance.now() + LONGEST_WAIT_MS;
    // A turn of the event loop in any case: requests arrive in it.
    await new Promise<void>((resolve) => setImmediate(resolve));
    while (this.#context.isBusy() && performance.now() < untilMs && !signal.aborted) await pause(LOOK_MS);
  }
}
