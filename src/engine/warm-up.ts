// Does in advance what the first requests would wait for: every kind of step that the backend names is prepared and
// then run once, on synthetic tokens in free blocks. Requests have precedence: a warm-up step runs while nothing else
// does, or now and then between theirs, so that it ends on a busy server, too. Invariants: it never fails, because a
// request that meets the same failure reports it; its blocks are released.

import { setTimeout as pause } from "node:timers/promises";
import type { KvCache, OutputRow, RunOptions, StepInput } from "../backends/contract.js";
import type { StepShape, WarmUpStep } from "../backends/warm-up-step.js";
import { unlessAborted } from "../worker/unless-aborted.js";
import type { KvStore } from "./kv-store.js";
import { warmUpInput } from "./warm-up-input.js";

/** The functions of a plan that a warm-up needs. */
export interface WarmUpPlan {
  warmUpSteps(sequences: number): readonly WarmUpStep[];
  prepareWarmUp(shape: StepShape): Promise<void>;
  rehearse(shape: StepShape): Promise<void>;
  step(step: StepInput, kvCache: KvCache, options: RunOptions): Promise<readonly OutputRow[]>;
}

interface WarmUpContext {
  readonly plan: WarmUpPlan;
  /** Not replaced while the warm-up runs. */
  readonly store: Pick<KvStore, "kvCache" | "pools">;
  readonly vocabularySize: number;
  /** Maximum number of sequences in a batch. */
  readonly sequences: number;
  /** Whether requests are running or queued. */
  readonly isBusy: () => boolean;
}

/** The progress of a warm-up. */
export interface WarmUpProgress {
  /** Finished steps; some may have been skipped for lack of blocks. */
  readonly done: number;
  readonly steps: number;
  readonly milliseconds: number;
}

/** Options of `model.warmUp`. */
export interface WarmUpOptions {
  readonly onProgress?: (progress: WarmUpProgress) => void;
  /** Whether requests are about to reach the engine. */
  readonly isBusy?: () => boolean;
}

/** Requests that waited for the model to load arrive right after. */
const FIRST_PAUSE_MS = 10;
/** How long requests delay the start of a warm-up, which keeps all processors busy. */
const FIRST_WAIT_MS = 1000;
/** How long requests delay the preparation of one step. */
const LONGEST_PREPARE_WAIT_MS = 20;
/** How long requests delay one step. */
const LONGEST_STEP_WAIT_MS = 100;
/** Deferred steps wait for as long as there are requests. */
const NO_LIMIT_MS = Number.POSITIVE_INFINITY;
/** How often it is checked whether requests have ended: for steps that `run` waits for, and for deferred ones. */
const LOOK_MS = 5;
const DEFERRED_LOOK_MS = 50;

/** Runs the warm-up of one engine beside its requests. */
export class WarmUp {
  readonly #context: WarmUpContext;
  #progress: WarmUpProgress = { done: 0, steps: 0, milliseconds: 0 };
  #isBusy: () => boolean;
  #deferred: Promise<void> = Promise.resolve();

  constructor(context: WarmUpContext) {
    this.#context = context;
    this.#isBusy = context.isBusy;
  }

  /** The progress so far. */
  get progress(): WarmUpProgress {
    return this.#progress;
  }

  /** Resolves when deferred steps are done; await it after `run`. */
  get ended(): Promise<void> {
    return this.#deferred;
  }

  /** Resolves when all steps but the deferred ones are done, or when the signal is aborted. */
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
        // A callback that throws must not stop the warm-up.
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

  /** Starts preparing all steps, in order: compilers use all processors from the start. */
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
    const { store, plan, vocabularySize } = this.#context;
    const { pools, kvCache } = store;
    // A failure is reported by the request that needs the result.
    if (!step.runs) return await plan.rehearse(step).catch(() => {});
    const input = warmUpInput(step, pools, vocabularySize);
    if (input === undefined) return;
    try {
      await plan.step(input.step, kvCache, { signal });
    } catch {
    } finally {
      for (const [group, pool] of pools.groups.entries()) pool.release(input.blocks[group]);
      pools.states?.release(input.stateSlots);
    }
  }

  /** Waits until no requests are running, or for the longest time that they may delay the warm-up. */
  async #turn(signal: AbortSignal, longestMs: number): Promise<void> {
    const untilMs = performance.now() + longestMs;
    // At least one turn of the event loop: requests arrive in it.
    await new Promise<void>((resolve) => setImmediate(resolve));
    while (this.#isBusy() && performance.now() < untilMs && !signal.aborted) {
      await pauseUnlessAborted(longestMs === NO_LIMIT_MS ? DEFERRED_LOOK_MS : LOOK_MS, signal);
    }
  }
}

/**
 * A pause whose timer does not keep the process alive. Aborting ends it at once: closing the engine waits for the warm-up,
 * and with nothing but such a timer left, Node would exit before the wait is over.
 */
export async function pauseUnlessAborted(milliseconds: number, signal: AbortSignal): Promise<void> {
  await pause(milliseconds, undefined, { ref: false, signal }).catch(() => {});
}

/** A compiler may take long; aborting the warm-up does not wait for it. */
async function orAborted(work: Promise<unknown> | undefined, signal: AbortSignal): Promise<void> {
  await unlessAborted(Promise.resolve(work), signal).catch(() => {});
}
