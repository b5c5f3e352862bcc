// The engine loop: schedule, run, sample, stream, finish. One step runs at a time. Its results are sampled, the next
// step is launched, and while that runs, the tokens of the previous one are decoded to text and delivered. A failure
// fails the requests it belongs to. Only a lost or disposed device, a damaged model file or a bug in the loop itself
// ends the loop, and then every request fails.

import type { KvCache, OutputRow, RunOptions, StepInput } from "../backends/contract.js";
import { BackendError, DisposedError, FileError, GgufError, RocmForgeError, ServingError } from "../errors.js";
import { BlockCopies } from "../kv-cache/block-copies.js";
import type { BlockPools } from "../kv-cache/block-pools.js";
import type { KvStore } from "./kv-store.js";
import { couldHold, largestSequence } from "../scheduler/block-demand.js";
import type { SchedulerLimits } from "../scheduler/limits.js";
import type { ScheduledSequence, SequenceOptions } from "../scheduler/scheduled-sequence.js";
import { PrefillPace, stepTokensOf } from "../scheduler/prefill-pace.js";
import { Scheduler, type StepSlice } from "../scheduler/scheduler.js";
import { tooLarge } from "./completion-request.js";
import { MaskBarrier } from "./mask-barrier.js";
import { StepPacker } from "./step-packer.js";
import type { Speculation } from "../speculation/speculation.js";
import type { SequenceHost, StepReader } from "./step-reader.js";
import { batchCounts, draftTokensOf, spoiledBy, verifyDrafts } from "./verification.js";

/** Computes a step; implemented by `ExecutionPlan`. */
export interface StepRunner {
  step(step: StepInput, kvCache: KvCache, options: RunOptions): Promise<readonly OutputRow[]>;
}

type Outcome = { readonly rows: readonly OutputRow[] } | { readonly error: unknown };

/** Runs the sequences of one model in shared steps, and delivers their results to readers. */
export class EngineLoop implements SequenceHost, AsyncDisposable {
  readonly masks = new MaskBarrier();
  /** Undefined if nothing is drafted. */
  readonly speculation: Speculation | undefined;
  readonly #store: KvStore;
  readonly #scheduler: Scheduler;
  readonly #runner: StepRunner;
  /** Of each cache group. */
  readonly #copies: readonly BlockCopies[];
  readonly #packer: StepPacker;
  readonly #pace: PrefillPace;
  readonly #readers = new Map<ScheduledSequence, StepReader>();
  readonly #undelivered = new Set<StepReader>();
  readonly #ending = new AbortController();
  readonly #retryAfterMs: () => number;
  #running: Promise<void> | undefined;
  /** Wakes the loop while it sleeps. */
  #alarm: (() => void) | undefined;
  #isAwake = false;
  #failure: { readonly error: unknown } | undefined;
  /** The batch of the running step. */
  #batch: readonly StepSlice[] = [];
  #steps = 0;
  #computedTokens = 0;
  #stepsMs = 0;
  #betweenStepsMs = 0;

  constructor(
    runner: StepRunner,
    store: KvStore,
    limits: SchedulerLimits,
    retryAfterMs: () => number,
    speculation?: Speculation,
  ) {
    this.#store = store;
    this.speculation = speculation;
    this.#runner = runner;
    this.#retryAfterMs = retryAfterMs;
    this.#copies = store.pools.groups.map(
      (_, group) => new BlockCopies((pairs) => store.kvCache.copyBlocks(pairs, group)),
    );
    this.#scheduler = new Scheduler(store.pools, limits, (from, to, group) => this.#copies[group].add(from, to));
    this.#packer = new StepPacker(limits);
    this.#pace = new PrefillPace(limits);
  }

  /** Why nothing can be computed any more; undefined while the loop works. */
  get failure(): unknown {
    return this.#failure?.error;
  }

  get pools(): BlockPools {
    return this.#store.pools;
  }

  /** Whether requests are running or queued. */
  get isBusy(): boolean {
    return this.#scheduler.running + this.#scheduler.queued > 0;
  }

  statistics() {
    const { running, queued, preemptions } = this.#scheduler;
    const times = { steps: this.#steps, stepsMs: this.#stepsMs, betweenStepsMs: this.#betweenStepsMs };
    const { draftedTokens = 0, acceptedTokens = 0 } = this.speculation ?? {};
    return {
      running,
      queued,
      preemptions,
      ...batchCounts(this.#batch),
      computedTokens: this.#computedTokens,
      ...this.pools.counts(),
      ...this.pools.stateCounts(),
      ...times,
      draftedTokens,
      acceptedTokens,
    };
  }

  submit(options: SequenceOptions, reader: StepReader): ScheduledSequence {
    if (this.#failure !== undefined) throw this.#failure.error;
    const sequence = this.#scheduler.submit(options);
    if (sequence === "too-large") throw tooLarge(options.capacityTokens, largestSequence(this.pools));
    if (sequence === "queue-full") throw queueFull(this.#scheduler.queued, this.#retryAfterMs());
    this.#readers.set(sequence, reader);
    this.#running ??= this.#run().catch((error: unknown) => {
      // A failure that belongs to no request ends all of them: none may be left waiting.
      this.#fail(error);
      this.#deliver();
    });
    this.wake();
    return sequence;
  }

  fork(sequence: ScheduledSequence, reader: StepReader): ScheduledSequence {
    const twin = this.#scheduler.fork(sequence);
    this.#readers.set(twin, reader);
    return twin;
  }

  release(sequence: ScheduledSequence, keepsStates = false): void {
    this.#scheduler.remove(sequence, keepsStates);
    this.speculation?.release(sequence);
    this.#readers.delete(sequence);
    this.wake();
  }

  deliverLater(reader: StepReader): void {
    this.#undelivered.add(reader);
  }

  wake(): void {
    this.#isAwake = true;
    this.#alarm?.();
  }

  /** Aborts the current step and fails all requests. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#fail(new DisposedError("the model"));
    await this.#running;
    this.#store[Symbol.dispose]();
  }

  async #run(): Promise<void> {
    // The caller that submitted the first request has to finish submitting first.
    await undefined;
    let resultMs: number | undefined;
    while (this.#failure === undefined) {
      if (this.speculation?.isWaiting === true) await this.#draft(this.speculation);
      if (this.masks.isWaiting) await this.#waitForMasks();
      this.#isAwake = false;
      this.#growCache();
      const slices = this.#scheduler.next(this.#pace);
      if (slices === undefined) {
        resultMs = undefined;
        this.#deliver();
        await this.#sleep();
        continue;
      }
      const step = this.#launch(slices);
      this.#batch = slices;
      const launchMs = performance.now();
      if (resultMs !== undefined) this.#betweenStepsMs += launchMs - resultMs;
      this.#deliver();
      const outcome = await step;
      resultMs = performance.now();
      this.#batch = [];
      this.#steps++;
      this.#stepsMs += resultMs - launchMs;
      this.#measure(slices, resultMs - launchMs);
      if ("error" in outcome) this.#failStep(slices, outcome.error);
      else this.#take(slices, outcome.rows, resultMs);
    }
    this.#deliver();
  }

  /** Between steps: grows the cache if sequences may need more than it holds, and preempts them if it loses its contents. */
  #growCache(): void {
    if (!this.#store.canGrow) return;
    const demand = this.#scheduler.demand();
    if (!this.#store.isShortOf(demand)) return;
    try {
      if (this.#store.extend(demand)) return;
      this.#scheduler.preemptAll();
      this.#store.replace(demand);
    } catch (error) {
      for (const [{ capacityTokens }, reader] of this.#readers)
        if (!couldHold(this.pools, this.pools.blocks, capacityTokens)) failAlone(reader, error);
    }
  }

  /** A step that cannot be launched counts as failed. */
  async #launch(slices: readonly StepSlice[]): Promise<Outcome> {
    try {
      for (const copies of this.#copies) copies.flush();
      const nowMs = performance.now();
      for (const { sequence } of slices) this.#readerOf(sequence).launched(nowMs);
      const step = this.#packer.pack(slices, (sequence, index) => this.#readerOf(sequence).wanted(index));
      return { rows: await this.#runner.step(step, this.#store.kvCache, { signal: this.#ending.signal }) };
    } catch (error) {
      return { error };
    }
  }

  /** Rows of sequences that have ended meanwhile are dropped. Drafts are verified before the scheduler advances. */
  #take(slices: readonly StepSlice[], rows: readonly OutputRow[], resultMs: number): void {
    const accepted = verifyDrafts(slices, rows, { readers: this.#readers, atMs: resultMs, attempt });
    this.#scheduler.advance(slices, spoiledBy(slices, rows, accepted), accepted);
    let next = 0;
    for (const slice of slices) {
      const { sequence, outputs } = slice;
      this.#computedTokens += slice.count;
      const reader = this.#readers.get(sequence);
      const isVerified = accepted.has(slice);
      for (let count = 0; count < outputs; count++) {
        const row = rows[next++];
        if (reader === undefined || sequence.state !== "running") continue;
        if (isVerified && count === 0) attempt(reader, () => reader.verified?.());
        else if (!isVerified && (count === 0 || slice.draft.length === 0))
          attempt(reader, () => reader.take(row, resultMs));
      }
    }
  }

  /** Decodes text while drafters compute. */
  async #draft(speculation: Speculation): Promise<void> {
    const drafting = speculation.draftWaiting(this.#ending.signal);
    this.#deliver();
    await drafting;
  }

  /** Steps without prefill tell what tokens and drafts cost. */
  #measure(slices: readonly StepSlice[], milliseconds: number): void {
    const tokens = stepTokensOf(slices);
    this.#pace.measured(tokens, milliseconds);
    if (this.speculation === undefined || tokens.prefill > 0) return;
    this.speculation.measured(milliseconds, slices.length, draftTokensOf(slices));
  }

  #deliver(): void {
    for (const reader of this.#undelivered) attempt(reader, () => reader.deliver());
    this.#undelivered.clear();
  }

  #failStep(slices: readonly StepSlice[], error: unknown): void {
    if (isFatal(error)) this.#fail(error);
    this.#scheduler.discard(slices);
    for (const { sequence } of slices) failAlone(this.#readers.get(sequence), error);
  }

  #fail(error: unknown): void {
    if (this.#failure !== undefined) return;
    this.#failure = { error };
    this.#ending.abort(error);
    for (const reader of this.#readers.values()) failAlone(reader, error);
    this.wake();
  }

  /** Decodes text while it waits. */
  async #waitForMasks(): Promise<void> {
    this.#deliver();
    await this.masks.wait();
  }

  async #sleep(): Promise<void> {
    if (!this.#isAwake) await new Promise<void>((resolve) => (this.#alarm = resolve));
    this.#alarm = undefined;
  }

  #readerOf(sequence: ScheduledSequence): StepReader {
    const reader = this.#readers.get(sequence);
    if (reader === undefined) throw new BackendError("BACKEND_STEP", "[engine] a sequence in a step has no reader");
    return reader;
  }
}

/** A failure of one request does not reach the others. */
function attempt(reader: StepReader, work: () => void): void {
  try {
    work();
  } catch (error) {
    failAlone(reader, error);
  }
}

/** A reader that throws while it fails does not affect the others. */
function failAlone(reader: StepReader | undefined, error: unknown): void {
  try {
    reader?.fail(error);
  } catch {
    // The request has already failed, or cannot be notified.
  }
}

/**
 * Whether nothing can be computed after this error: weights that cannot be read now may have been read wrong before.
 */
function isFatal(error: unknown): boolean {
  if (!(error instanceof RocmForgeError)) return false;
  return (
    error.code === "GPU_DEVICE_LOST" ||
    error.code === "DISPOSED" ||
    error instanceof GgufError ||
    error instanceof FileError ||
    isFatal(error.cause)
  );
}

function queueFull(queued: number, retryAfterMs: number): ServingError {
  return new ServingError(
    "SERVING_QUEUE_FULL",
    `[complete] ${queued} requests are already queued; try again in ${Math.ceil(retryAfterMs / 1000)} s`,
    {
      details: { queued, retryAfterMs },
    },
  );
}
