// The engine loop: schedule, run, sample, stream, finish. While a step runs, the tokens of the previous one are decoded to
// text and delivered. Where the backend can, and nothing but plain decoding goes on, the next step is queued behind the
// running one before its tokens are known (async scheduling): the device does not wait for the host, and rows of a
// sequence that ends meanwhile are dropped. A failure fails the requests it belongs to. Only a lost or disposed device, a
// damaged model file or a bug in the loop itself ends the loop, and then every request fails.

import type { KvCache, OutputRow, RunOptions, StepInput } from "../backends/contract.js";
import { BackendError, DisposedError } from "../errors.js";
import { BlockCopies } from "../kv-cache/block-copies.js";
import type { BlockPools } from "../kv-cache/block-pools.js";
import type { KvStore } from "./kv-store.js";
import { couldHold, largestSequence } from "../scheduler/block-demand.js";
import type { SchedulerLimits } from "../scheduler/limits.js";
import type { ScheduledSequence, SequenceOptions } from "../scheduler/scheduled-sequence.js";
import { PrefillPace, stepTokensOf } from "../scheduler/prefill-pace.js";
import { enterStep } from "../scheduler/following-step.js";
import { Scheduler } from "../scheduler/scheduler.js";
import type { StepSlice } from "../scheduler/step-slice.js";
import { tooLarge } from "./completion-request.js";
import { MaskBarrier } from "./mask-barrier.js";
import { StepPacker } from "./step-packer.js";
import type { Speculation } from "../speculation/speculation.js";
import { attempt, failAlone, isFatal, queueFull } from "./loop-failures.js";
import { followingStep } from "./following-step.js";
import type { RowWant, SequenceHost, StepReader } from "./step-reader.js";
import { type StepLaunch, StepTimes } from "./step-times.js";
import { batchCounts, draftTokensOf, spoiledBy, verifyDrafts } from "./verification.js";

/** Computes a step; implemented by `ExecutionPlan`. */
export interface StepRunner {
  /** Whether a step may be run now while the previous one computes its tokens; asked before each. */
  readonly asyncScheduling?: boolean;
  step(step: StepInput, kvCache: KvCache, options: RunOptions): Promise<readonly OutputRow[]>;
}

type Outcome = { readonly rows: readonly OutputRow[] } | { readonly error: unknown };

/** A step that was launched. */
interface RunningStep extends StepLaunch {
  readonly slices: readonly StepSlice[];
  /** How long the device waited for the host to compose it. */
  readonly waitedMs: number;
  readonly outcome: Promise<Outcome>;
}

/** Runs the sequences of one model in shared steps, and delivers their results to readers. */
export class EngineLoop implements SequenceHost, AsyncDisposable {
  readonly masks = new MaskBarrier();
  /** Undefined if nothing is drafted. */
  readonly speculation: Speculation | undefined;
  readonly #store: KvStore;
  readonly #scheduler: Scheduler;
  /** Of each cache group. */
  readonly #copies: readonly BlockCopies[];
  readonly #runner: StepRunner;
  /** In turns: one step may be packed while another runs. */
  readonly #packers: readonly [StepPacker, StepPacker];
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
  #computedTokens = 0;
  #launches = 0;
  readonly #times = new StepTimes();

  constructor(
    runner: StepRunner,
    store: KvStore,
    limits: SchedulerLimits,
    retryAfterMs: () => number,
    speculation?: Speculation,
  ) {
    this.#store = store;
    this.speculation = speculation;
    this.#retryAfterMs = retryAfterMs;
    this.#copies = store.pools.groups.map(
      (_, group) => new BlockCopies((pairs) => store.kvCache.copyBlocks(pairs, group)),
    );
    this.#scheduler = new Scheduler(store.pools, limits, (from, to, group) => this.#copies[group].add(from, to));
    this.#runner = runner;
    this.#packers = [new StepPacker(limits), new StepPacker(limits)];
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
    const { steps, stepsMs, betweenStepsMs } = this.#times;
    const { draftedTokens = 0, acceptedTokens = 0 } = this.speculation ?? {};
    return {
      running,
      queued,
      preemptions,
      ...batchCounts(this.#batch),
      computedTokens: this.#computedTokens,
      ...this.pools.counts(),
      ...this.pools.stateCounts(),
      steps,
      stepsMs,
      betweenStepsMs,
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
    let running: RunningStep | undefined;
    while (this.#failure === undefined) {
      running ??= await this.#next();
      if (running === undefined) continue;
      this.#batch = running.slices;
      enterStep(running.slices);
      const following = this.#launchAsync(running);
      this.#deliver();
      await this.#end(running);
      running = following;
    }
    if (running !== undefined) await this.#end(running);
    this.#deliver();
  }

  /** Launches the next step; undefined if there was nothing to compute, and the loop has slept. */
  async #next(): Promise<RunningStep | undefined> {
    // Whatever wakes the loop from here on, while it waits for drafts and masks, must keep it from sleeping afterwards.
    this.#isAwake = false;
    // A batch drafter's time is counted by itself, and masks are waited for without drafts, too.
    const apartMs = await this.#waitForDraftsAndMasks();
    this.#growCache();
    const slices = this.#scheduler.next(this.#pace);
    if (slices !== undefined) {
      const wantOf = (sequence: ScheduledSequence, index: number): RowWant => this.#readerOf(sequence).wanted(index);
      const running = this.#launch(slices, (packer) => packer.pack(slices, wantOf));
      return { ...running, waitedMs: Math.max(0, this.#times.launched(running) - apartMs) };
    }
    this.#times.paused();
    this.#deliver();
    await this.#sleep();
    return undefined;
  }

  /** Waits for a step and takes its results. */
  async #end(running: RunningStep): Promise<void> {
    const { slices, waitedMs } = running;
    const outcome = await running.outcome;
    const resultMs = performance.now();
    const milliseconds = this.#times.ended(running, resultMs);
    this.#batch = [];
    this.#measure(slices, milliseconds, waitedMs);
    if ("error" in outcome) this.#failStep(slices, outcome.error);
    else this.#take(slices, outcome.rows, resultMs);
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

  /** Queues the step after the running one behind it; undefined if it has to wait for its tokens. */
  #launchAsync({ slices: running }: RunningStep): RunningStep | undefined {
    if (this.#runner.asyncScheduling !== true) return undefined;
    const following = followingStep(running, this.#scheduler, this.#readers);
    if (following === undefined) return undefined;
    const { slices, previousOutputs, wantOf } = following;
    return { ...this.#launch(slices, (packer) => packer.packAsync(slices, previousOutputs, wantOf)), isQueued: true };
  }

  #launch(slices: readonly StepSlice[], pack: (packer: StepPacker) => StepInput): RunningStep {
    const outcome = this.#compute(slices, pack);
    // What a step costs does not contain what the host does before it.
    return { slices, launchMs: performance.now(), isQueued: false, waitedMs: 0, outcome };
  }

  /** A step that cannot be launched counts as failed. */
  async #compute(slices: readonly StepSlice[], pack: (packer: StepPacker) => StepInput): Promise<Outcome> {
    try {
      for (const copies of this.#copies) copies.flush();
      const nowMs = performance.now();
      for (const { sequence } of slices) this.#readerOf(sequence).launched(nowMs);
      const step = pack(this.#packers[this.#launches++ % 2]);
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

  /** Decodes text while it waits; returns for how many milliseconds. */
  async #waitForDraftsAndMasks(): Promise<number> {
    if (this.speculation?.isWaiting !== true && !this.masks.isWaiting) return 0;
    const beganMs = performance.now();
    const drafting = this.speculation?.draftWaiting(this.#ending.signal);
    this.#deliver();
    await drafting;
    if (this.masks.isWaiting) await this.masks.wait();
    return performance.now() - beganMs;
  }

  /** Steps without prefill tell what tokens and drafts cost. */
  #measure(slices: readonly StepSlice[], milliseconds: number, waitedMs: number): void {
    const tokens = stepTokensOf(slices);
    this.#pace.measured(tokens, milliseconds);
    if (this.speculation === undefined || tokens.prefill > 0) return;
    const drafted = draftTokensOf(slices);
    // Without a draft the device would not have waited.
    const costMs = drafted > 0 && this.#runner.asyncScheduling === true ? milliseconds + waitedMs : milliseconds;
    this.speculation.measured(costMs, slices.length, drafted);
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
