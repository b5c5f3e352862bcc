// Decides which tokens of which sequences go into the next step. Decoding sequences come first, one token each, with a
// draft if the step has no prefill; prefill gets the rest of the step. When blocks of a cache group run out, the last in
// queue order is preempted and starts again later. Pure: no device. Invariants: only running sequences hold blocks; the
// first in order always gets the blocks it needs, so that it always finishes; within a priority no sequence overtakes
// another, and across priorities only sequences that have waited briefly are overtaken.

import { reachTokens } from "../graph/cache-groups.js";
import type { BlockPools } from "../kv-cache/block-pools.js";
import type { CopyBlock } from "../kv-cache/block-table.js";
import { type CacheDemand, couldHold, demandOf, firstBlocks } from "./block-demand.js";
import { followingSlices } from "./following-step.js";
import type { SchedulerLimits } from "./limits.js";
import type { PrefillPace } from "./prefill-pace.js";
import { PriorityQueue } from "./priority-queue.js";
import { computable, splitPrefillBudget } from "./prefill-budget.js";
import type { StepSlice } from "./step-slice.js";
import { queuePositionAt, ScheduledSequence, type SequenceOptions } from "./scheduled-sequence.js";

const NO_DRAFT = new Int32Array();
const NONE: ReadonlySet<ScheduledSequence> = new Set();
const NO_ACCEPTANCE: ReadonlyMap<StepSlice, number> = new Map();

type Submission = ScheduledSequence | "queue-full" | "too-large";

/** Composes the batch of each step. */
export class Scheduler {
  readonly limits: SchedulerLimits;
  readonly #pools: BlockPools;
  /** Whether a cache group has a sliding window: its blocks are allocated and released step by step. */
  readonly #hasWindows: boolean;
  /** Sequences that ended during a step, and whose states after that step are kept. */
  readonly #ending = new Set<ScheduledSequence>();
  readonly #copyBlock: CopyBlock;
  readonly #queue = new PriorityQueue();
  readonly #running = new PriorityQueue();
  #arrivals = 0;
  #steps = 0;
  #runningSlots = 0;
  #preemptions = 0;
  /** The sequence that did not fit, and the pools' count of returned blocks then: it cannot fit until more are returned. */
  #unfit: { readonly sequence: ScheduledSequence; readonly returns: number } | undefined;

  constructor(pools: BlockPools, limits: SchedulerLimits, copyBlock: CopyBlock) {
    this.#pools = pools;
    this.#hasWindows = pools.reaches.some((reach) => reachTokens(reach) < Number.POSITIVE_INFINITY);
    this.limits = limits;
    this.#copyBlock = copyBlock;
  }

  get queued(): number {
    return this.#queue.length;
  }

  get running(): number {
    return this.#running.length;
  }

  get preemptions(): number {
    return this.#preemptions;
  }

  /** Blocks that running sequences, and those that could run beside them, may need. */
  demand(): CacheDemand {
    return demandOf([...this.#running, ...this.#queue], this.#pools, this.limits);
  }

  /** Preempts all running sequences. */
  preemptAll(): void {
    for (let { last } = this.#running; last !== undefined; { last } = this.#running) this.#preempt(last);
  }

  /** Queues a sequence, unless the queue is full or the sequence could never run. */
  submit(options: SequenceOptions): Submission {
    const { capacityTokens, slots, priority } = options;
    const fits = couldHold(this.#pools, this.#pools.maxBlocks, capacityTokens);
    if (!fits || slots > this.limits.sequences) return "too-large";
    if (!this.#hasRoomFor(slots)) return "queue-full";
    const position = queuePositionAt(this.#steps, priority, this.#arrivals++);
    const sequence = new ScheduledSequence(options, position, this.#pools);
    this.#queue.insert(sequence);
    return sequence;
  }

  /**
   * A second sequence that continues from the state of a running one, in one of the slots that were reserved for it.
   */
  fork(sequence: ScheduledSequence): ScheduledSequence {
    if (sequence.state !== "running" || sequence.slots < 2)
      throw new RangeError("only a running sequence with a reserved slot can be forked");
    const { queuePosition, capacityTokens, tokens } = sequence;
    const options = { tokens, capacityTokens, priority: queuePosition.priority, slots: 1 };
    const twin = new ScheduledSequence(
      options,
      { ...queuePosition, fork: queuePosition.fork + sequence.slots - 1 },
      this.#pools,
    );
    twin.tables = sequence.tables.fork();
    twin.computed = sequence.computed;
    twin.state = "running";
    sequence.slots--;
    this.#running.insert(twin);
    return twin;
  }

  /** The next step, or undefined if nothing can be computed now. The pace tells how much prefill decoding can wait for. */
  next(pace?: PrefillPace): readonly StepSlice[] | undefined {
    const step = ++this.#steps;
    const slices: StepSlice[] = [];
    for (let index = 0; index < this.#running.length; index++) {
      const sequence = this.#running.at(index);
      if (!sequence.isDecoding || !sequence.isReady || !this.#makeRoom(sequence)) continue;
      sequence.servedStep = step;
      slices.push({ sequence, start: sequence.computed, count: 1, outputs: 1, draft: NO_DRAFT });
    }
    this.#admit();
    const prompts = this.#prompts(step);
    // With prefill a step is limited by arithmetic, and tokens that may be rejected are not cheap any more.
    if (prompts.length === 0) this.#addDrafts(slices);
    const { stepTokens, stepOutputs, prefillTokens, prefillTokensWhileDecoding } = this.limits;
    const beside = pace?.beside(slices.length, prompts.map(computable)) ?? prefillTokensWhileDecoding;
    const most = slices.length > 0 ? beside : prefillTokens;
    const shares = splitPrefillBudget(prompts, {
      tokens: Math.min(most, stepTokens - slices.length),
      spareOutputs: stepOutputs - this.#running.length,
      blockTokens: this.#pools.blockTokens,
    });
    for (const { sequence, tokens } of shares) {
      const count = this.#makeRoomForChunk(sequence, tokens, slices);
      if (count === 0) continue;
      sequence.servedStep = step;
      const outputs = sequence.outputsOf(count);
      slices.push({ sequence, start: sequence.computed, count, outputs, draft: NO_DRAFT });
    }
    if (slices.length === 0) return undefined;
    if (this.#pools.states !== undefined)
      for (const { sequence, start, count } of slices) sequence.joinStep(start, count);
    return slices;
  }

  /**
   * The step after one that is running, before its tokens are known: the same sequences, one token each, without those
   * that `ends` names. Undefined if the running step is not made of all running sequences' next tokens, if another
   * sequence could begin, or if blocks are scarce: then the next step is composed when the running one has ended.
   */
  following(slices: readonly StepSlice[], ends: ReadonlySet<ScheduledSequence>): readonly StepSlice[] | undefined {
    const { first } = this.#queue;
    if (first !== undefined && this.#hasSlotsFor(first) && !this.#isUnfit(first)) return undefined;
    const following = followingSlices(slices, {
      ends,
      running: this.#running.length,
      step: this.#steps + 1,
      makeWritable: (sequence, position) => sequence.makeFollowingWritable(position, this.#copyBlock),
    });
    if (following !== undefined) this.#steps++;
    return following;
  }

  /**
   * Records that the step has been computed. Sequences that were removed meanwhile are skipped; blocks of spoiled ones
   * are removed from the prefix cache. Of a slice with a draft only the accepted tokens count, which the sequence has by
   * now: the others are overwritten by later steps.
   */
  advance(
    slices: readonly StepSlice[],
    spoiled: ReadonlySet<ScheduledSequence> = NONE,
    accepted: ReadonlyMap<StepSlice, number> = NO_ACCEPTANCE,
  ): void {
    for (const slice of slices) {
      const { sequence, count, draft } = slice;
      sequence.isInStep = false;
      const isEnding = this.#ending.delete(sequence);
      if (sequence.state !== "running" && !isEnding) continue;
      const before = sequence.computed;
      sequence.computed += accepted.get(slice) ?? count - draft.length;
      if (spoiled.has(sequence)) sequence.tables.invalidate(sequence.tokens);
      else {
        sequence.tables.commit(sequence.tokens, sequence.computed);
        if (isEnding || sequence.checkpoints?.has(sequence.computed) === true) sequence.keepStates();
        else if (sequence.checkpoints?.hasForNow(before, sequence.computed) === true) sequence.keepStatesForNow();
      }
      if (this.#hasWindows) sequence.tables.releaseUnseen(sequence.computed);
      if (isEnding) sequence.release();
    }
  }

  /** Records that the step was not computed. */
  discard(slices: readonly StepSlice[]): void {
    for (const { sequence } of slices) {
      sequence.isInStep = false;
      if (this.#ending.delete(sequence)) sequence.release();
    }
  }

  /**
   * Ends a sequence in any state; its blocks are freed at once. Its recurrent states are kept in the prefix cache if
   * `keepsStates`: those after the running step, if it is in one, and its blocks are freed then.
   */
  remove(sequence: ScheduledSequence, keepsStates = false): void {
    if (sequence.state === "queued") this.#queue.remove(sequence);
    if (sequence.state === "running") this.#leave(sequence, keepsStates);
    sequence.state = "ended";
  }

  /** Allocates the block of the next token, preempting the last in order if necessary; false if that is itself. */
  #makeRoom(sequence: ScheduledSequence): boolean {
    while (!sequence.tables.makeWritable(sequence.computed, sequence.computed + 1, this.#copyBlock)) {
      const { last } = this.#running;
      if (last === undefined) throw new RangeError("no running sequence holds the missing blocks");
      this.#preempt(last);
      if (last === sequence) return false;
    }
    return true;
  }

  /** Adds drafts while tokens, output rows and blocks are spare; a draft never preempts a sequence. */
  #addDrafts(slices: StepSlice[]): void {
    const { stepTokens, stepOutputs } = this.limits;
    let spare = Math.min(stepTokens, stepOutputs) - this.#running.length;
    for (const [index, { sequence, start }] of slices.entries()) {
      const wanted = Math.min(sequence.draft.length, spare);
      // A block stays for the next token of every other running sequence.
      const room = sequence.tables.roomAfter(start, wanted, this.#running.length - 1);
      const count = 1 + (sequence.tables.states?.alsoAfterEach(start, room) ?? room);
      if (count === 1) continue;
      if (!sequence.tables.makeWritable(start, start + count, this.#copyBlock)) {
        sequence.tables.states?.onlyAfterLast();
        continue;
      }
      spare -= count - 1;
      slices[index] = { sequence, start, count, outputs: count, draft: sequence.draft.subarray(0, count - 1) };
    }
  }

  /**
   * Allocates the blocks of a prefill chunk, a shorter one if they are scarce, and returns its length. A sequence that
   * gets none preempts the last in order, or waits if that is itself; full attention's blocks it has from the start, but
   * the one in which a checkpoint ends may be shared.
   */
  #makeRoomForChunk(sequence: ScheduledSequence, tokens: number, slices: StepSlice[]): number {
    if (!this.#hasWindows && sequence.tables.states === undefined) return tokens;
    while (sequence.state === "running") {
      const count = sequence.tables.makeSomeWritable(sequence.computed, tokens, this.#copyBlock);
      const { last } = this.#running;
      if (count > 0 || last === undefined || last === sequence) return count;
      this.#preempt(last);
      const taken = slices.findIndex((slice) => slice.sequence === last);
      if (taken >= 0) slices.splice(taken, 1);
    }
    return 0;
  }

  #preempt(sequence: ScheduledSequence): void {
    this.#leave(sequence, true);
    sequence.preemptions++;
    this.#preemptions++;
    sequence.state = "queued";
    this.#queue.insert(sequence);
  }

  #leave(sequence: ScheduledSequence, keepsStates: boolean): void {
    this.#running.remove(sequence);
    this.#runningSlots -= sequence.slots;
    if (keepsStates && sequence.checkpoints !== undefined) {
      if (sequence.isInStep) {
        this.#ending.add(sequence);
        return;
      }
      sequence.keepStates();
    }
    sequence.release();
  }

  /**
   * Whether another sequence may be queued. Those that the next step admits do not count: requests that arrive together
   * fit together.
   */
  #hasRoomFor(slots: number): boolean {
    let openSlots = this.limits.sequences - this.#runningSlots;
    let waiting = this.#queue.length;
    for (const sequence of this.#queue) {
      if (sequence.slots > openSlots || this.#isUnfit(sequence)) return waiting < this.limits.queued;
      openSlots -= sequence.slots;
      waiting--;
    }
    return slots <= openSlots || this.limits.queued > 0;
  }

  #admit(): void {
    for (let { first } = this.#queue; first !== undefined; { first } = this.#queue) {
      if (!this.#hasSlotsFor(first) || !this.#fits(first)) return;
      this.#queue.remove(first);
      first.state = "running";
      // After those that are already waiting for a chunk.
      first.servedStep = this.#steps - 1;
      this.#running.insert(first);
      this.#runningSlots += first.slots;
    }
  }

  /**
   * Takes the blocks of all known tokens, or those that a window begins with, and leaves one of each group free for each
   * running sequence, which may need it soon.
   */
  #fits(sequence: ScheduledSequence): boolean {
    if (this.#isUnfit(sequence)) return false;
    sequence.adopt();
    const { tables } = sequence;
    const blocks = firstBlocks(this.#pools, sequence);
    const leaves = this.#pools.groups.every(
      ({ availableBlocks }, group) =>
        tables.groups[group].missingFor(blocks[group]) + this.#running.length <= availableBlocks,
    );
    if (leaves && tables.reserve(blocks)) return true;
    sequence.cachedTokens = sequence.preemptions === 0 ? 0 : sequence.cachedTokens;
    sequence.release();
    this.#unfit = { sequence, returns: this.#pools.releases };
    return false;
  }

  #hasSlotsFor({ slots }: ScheduledSequence): boolean {
    return this.#runningSlots + slots <= this.limits.sequences;
  }

  #isUnfit(sequence: ScheduledSequence): boolean {
    return this.#unfit?.sequence === sequence && this.#unfit.returns === this.#pools.releases;
  }

  /** Running sequences that are not in this step yet and have tokens to compute. */
  #prompts(step: number): ScheduledSequence[] {
    const prompts: ScheduledSequence[] = [];
    for (const sequence of this.#running) {
      if (sequence.servedStep === step) continue;
      sequence.adopt();
      if (computable(sequence) > 0) prompts.push(sequence);
    }
    return prompts;
  }
}
