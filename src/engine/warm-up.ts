// What a model's first requests would stop for, done before they come: every kind of step that the backend names is
// prepared and then run once, on made-up tokens in blocks that no sequence holds. Requests go first: a step of the warm-up
// runs while nothing else does, or now and then between theirs, so that a busy server gets to its end, too.
// Invariants: it never fails, because what fails here fails again where somebody is told; blocks it took are given back.

import { setTimeout as pause } from "node:timers/promises";
import type { KvCache, OutputRow, RunOptions, StepInput, StepShape, WarmUpStep } from "../backends/contract.js";
import type { BlockPool } from "../kv-cache/block-pool.js";
import { unlessAborted } from "../worker/unless-aborted.js";
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

/** Of what is done before the model is called ready. */
export interface WarmUpProgress {
  /** Some may have been left out for want of blocks. */
  readonly done: number;
  readonly steps: number;
  readonly milliseconds: number;
}

export interface WarmUpOptions {
  readonly onProgress?: (progress: WarmUpProgress) => void;
  /** Whether requests are on their way that the engine has not been given yet. */
  readonly isBusy?: () => boolean;
}

/** Requests that waited for the model to be loaded come right after. */
const FIRST_PAUSE_MS = 10;
/** How long requests keep a warm-up waiting that somebody waits for: its beginning, which keeps the processors busy, */
const FIRST_WAIT_MS = 1000;
/** each thing that is prepared, */
const LONGEST_PREPARE_WAIT_MS = 20;
/** and each step; */
const LONGEST_STEP_WAIT_MS = 100;
/** what was deferred waits for as long as it takes. */
const NO_LIMIT_MS = Number.POSITIVE_INFINITY;
/** How often it is looked whether requests are done, and how often where nobody waits for the warm-up. */
const LOOK_MS = 5;
const DEFERRED_LOOK_MS = 50;

export class WarmUp {
  readonly #context: WarmUpContext;
  #progress: WarmUpProgress = { done: 0, steps: 0, milliseconds: 0 };
  #isBusy: () => boolean;
  #deferred: Promise<void> = Promise.resolve();

  constructor(context: WarmUpContext) {
    this.#context = context;
    this.#isBusy = context.isBusy;
  }

  /** So far. */
  get progress(): WarmUpProgress {
    return this.#progress;
  }

  /** When what was deferred is done, too; after `run`. */
  get ended(): Promise<void> {
    return this.#deferred;
  }

  /** Resolves when requests would wait for nothing more, or when it was cut short by the signal. What is deferred goes on. */
  async run(signal: AbortSignal, { onProgress, isBusy }: WarmUpOptions = {}): Promise<void> {
    const { plan, sequences } = this.#context;
    if (isBusy !== undefined) this.#isBusy = () => this.#context.isBusy() || isBusy();
    const startMs = performance.now();
    const all = plan.warmUpSteps(sequences);
    if (all.length === 0) return;
    const [steps, deferred] = [all.filter((step) => !step.deferred), all.filter((step) => step.deferred)];
    const report = (done: number): void => {
      this.#progress = { done, steps: steps.length, milliseconds: performance.now() - startMs };
      try {
        onProgress?.(this.#progress);
      } catch {
        // A listener that fails is no reason to leave a server cold.
      }
    };
    report(0);
    await pause(FIRST_PAUSE_MS);
    await this.#turn(signal, FIRST_WAIT_MS);
    const prepared = await this.#prepare(all, signal);
    for (const [index, step] of steps.entries()) {
      await orAborted(prepared.get(step), signal);
      await this.#turn(signal, LONGEST_STEP_WAIT_MS);
      if (signal.aborted) return;
      await this.#run(step, signal);
      report(index + 1);
    }
    await orAborted(Promise.all(prepared.values()), signal);
    if (signal.aborted) return;
    report(steps.length);
    this.#deferred = this.#runDeferred(deferred, signal);
  }

  /** Begins with everything, in order: compilers have work for every processor from the start. */
  async #prepare(steps: readonly WarmUpStep[], signal: AbortSignal): Promise<ReadonlyMap<WarmUpStep, Promise<void>>> {
    const prepared = new Map<WarmUpStep, Promise<void>>();
    for (const step of steps) {
      if (signal.aborted) break;
      prepared.set(
        step,
        this.#context.plan.prepareWarmUp(step).catch(() => {}),
      );
      await this.#turn(signal, LONGEST_PREPARE_WAIT_MS);
    }
    return prepared;
  }

  async #runDeferred(steps: readonly WarmUpStep[], signal: AbortSignal): Promise<void> {
    for (const step of steps) {
      await this.#turn(signal, NO_LIMIT_MS);
      if (signal.aborted) return;
      await this.#run(step, signal);
    }
  }

  async #run(step: WarmUpStep, signal: AbortSignal): Promise<void> {
    const { pool, plan, kvCache, vocabularySize } = this.#context;
    // A request that needs what fails here is told.
    if (!step.runs) return await plan.rehearse(step).catch(() => {});
    const input = warmUpInput(step, pool, vocabularySize);
    if (input === undefined) return;
    try {
      await plan.step(input.step, kvCache, { signal });
    } catch {
    } finally {
      pool.release(input.blocks);
    }
  }

  /** Until no request is under way, or they have been waited for long enough. */
  async #turn(signal: AbortSignal, longestMs: number): Promise<void> {
    const untilMs = performance.now() + longestMs;
    // A turn of the event loop in any case: requests arrive in it.
    await new Promise<void>((resolve) => setImmediate(resolve));
    while (this.#isBusy() && performance.now() < untilMs && !signal.aborted) {
      await pause(longestMs === NO_LIMIT_MS ? DEFERRED_LOOK_MS : LOOK_MS, undefined, { ref: false });
    }
  }
}

/** A compiler may take long, and whoever ends the warm-up does not wait for it. */
async function orAborted(work: Promise<unknown> | undefined, signal: AbortSignal): Promise<void> {
  await unlessAborted(Promise.resolve(work), signal).catch(() => {});
}
