// Decides which tokens of which sequences go into the next step. Decoding sequences come first, one token each; prefill
// gets the rest of the step. When blocks run out, the last in queue order is preempted and starts again later. Pure: no
// device. Invariants: only running sequences hold blocks; the first in order always gets the blocks it needs, so that
// it always finishes; within a priority no sequence overtakes another, and across priorities only sequences that have
// waited briefly are overtaken.

import type { BlockPool } from "../kv-cache/block-pool.js";
import type { CopyBlock } from "../kv-cache/block-table.js";
import type { SchedulerLimits } from "./limits.js";
import { PriorityQueue } from "./priority-queue.js";
import { computable, splitPrefillBudget } from "./prefill-budget.js";
import { queuePositionAt, ScheduledSequence, type SequenceOptions } from "./scheduled-sequence.js";

/** Tokens of one sequence in one step: positions `start` to `start + count` − 1. */
export interface StepSlice {
  readonly sequence: ScheduledSequence;
  readonly start: number;
  readonly count: number;
  /** Number of output rows: none, one for the last token, or one for each token from `firstOutput` on. */
  readonly outputs: number;
}

/** How many blocks of the KV cache are needed. */
export interface CacheDemand {
  readonly blocks: number;
  /** Maximum that a single sequence may need. */
  readonly largest: number;
}

const NONE: ReadonlySet<ScheduledSequence> = new Set();

type Submission = ScheduledSequence | "queue-full" | "too-large";

/** Composes the batch of each step. */
export class Scheduler {
  readonly limits: SchedulerLimits;
  readonly #pool: BlockPool;
  readonly #copyBlock: CopyBlock;
  readonly #queue = new PriorityQueue();
  readonly #running = new PriorityQueue();
  #arrivals = 0;
  #steps = 0;
  #runningSlots = 0;
  #preemptions = 0;
  /**
   * The sequence that did not fit, and the pool's count of returned blocks at that time: it cannot fit until more are
   * returned.
   */
  #unfit: { readonly sequence: ScheduledSequence; readonly returns: number } | undefined;

  constructor(pool: BlockPool, limits: SchedulerLimits, copyBlock: CopyBlock) {
    this.#pool = pool;
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
    let openSlots = this.limits.sequences;
    let largest = 0;
    let blocks = 0;
    for (const line of [this.#running, this.#queue]) {
      for (const { capacityTokens, slots } of line) {
        if (slots > openSlots) return { blocks: Math.min(blocks, this.#pool.maxBlocks), largest };
        // One block more for each sequence but the first: admission keeps it free.
        const own = this.#blocksFor(capacityTokens) * slots;
        blocks += own + (openSlots === this.limits.sequences ? slots - 1 : slots);
        largest = Math.max(largest, this.#blocksFor(capacityTokens));
        openSlots -= slots;
      }
    }
    return { blocks: Math.min(blocks, this.#pool.maxBlocks), largest };
  }

  /** Preempts all running sequences. */
  preemptAll(): void {
    for (let { last } = this.#running; last !== undefined; { last } = this.#running) this.#preempt(last);
  }

  /** Queues a sequence, unless the queue is full or the sequence could never run. */
  submit(options: SequenceOptions): Submission {
    const { capacityTokens, slots, priority } = options;
    if (this.#blocksFor(capacityTokens) > this.#pool.maxBlocks || slots > this.limits.sequences) return "too-large";
    if (!this.#hasRoomFor(slots)) return "queue-full";
    const sequence = new ScheduledSequence(
      options,
      queuePositionAt(this.#steps, priority, this.#arrivals++),
      this.#pool,
    );
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
      this.#pool,
    );
    twin.table = sequence.table.fork();
    twin.computed = sequence.computed;
    twin.state = "running";
    sequence.slots--;
    this.#running.insert(twin);
    return twin;
  }

  /** The next step, or undefined if nothing can be computed now. */
  next(): readonly StepSlice[] | undefined {
    const step = ++this.#steps;
    const slices: StepSlice[] = [];
    for (let index = 0; index < this.#running.length; index++) {
      const sequence = this.#running.at(index);
      if (!sequence.isDecoding || !sequence.isReady || !this.#makeRoom(sequence)) continue;
      sequence.servedStep = step;
      slices.push({ sequence, start: sequence.computed, count: 1, outputs: 1 });
    }
    this.#admit();
    const { stepTokens, stepOutputs, prefillTokens, prefillTokensWhileDecoding } = this.limits;
    const most = slices.length > 0 ? prefillTokensWhileDecoding : prefillTokens;
    const shares = splitPrefillBudget(this.#prompts(step), {
      tokens: Math.min(most, stepTokens - slices.length),
      spareOutputs: stepOutputs - this.#running.length,
      blockTokens: this.#pool.blockTokens,
    });
    for (const { sequence, tokens } of shares) {
      sequence.servedStep = step;
      slices.push({ sequence, start: sequence.computed, count: tokens, outputs: sequence.outputsOf(tokens) });
    }
    return slices.length === 0 ? undefined : slices;
  }

  /**
   * Records that the step has been computed. Sequences that were removed meanwhile are skipped; blocks of spoiled ones
   * are removed from the prefix cache.
   */
  advance(slices: readonly StepSlice[], spoiled: ReadonlySet<ScheduledSequence> = NONE): void {
    for (const { sequence, count } of slices) {
      if (sequence.state !== "running") continue;
      sequence.computed += count;
      if (spoiled.has(sequence)) sequence.table.invalidate();
      else sequence.table.commit(sequence.tokens, sequence.computed);
    }
  }

  /** Ends a sequence in any state; its blocks are freed at once. */
  remove(sequence: ScheduledSequence): void {
    if (sequence.state === "queued") this.#queue.remove(sequence);
    if (sequence.state === "running") this.#leave(sequence);
    sequence.state = "ended";
  }

  /**
   * Allocates the block of the next token, preempting the last in order if necessary; false if that is the sequence
   * itself.
   */
  #makeRoom(sequence: ScheduledSequence): boolean {
    while (!sequence.table.makeWritable(sequence.computed, sequence.computed + 1, this.#copyBlock)) {
      const { last } = this.#running;
      if (last === undefined) throw new RangeError("no running sequence holds the missing blocks");
      this.#preempt(last);
      if (last === sequence) return false;
    }
    return true;
  }

  #preempt(sequence: ScheduledSequence): void {
    this.#leave(sequence);
    sequence.preemptions++;
    this.#preemptions++;
    sequence.state = "queued";
    this.#queue.insert(sequence);
  }

  #leave(sequence: ScheduledSequence): void {
    this.#running.remove(sequence);
    this.#runningSlots -= sequence.slots;
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
      if (this.#runningSlots + first.slots > this.limits.sequences || !this.#fits(first)) return;
      this.#queue.remove(first);
      first.state = "running";
      // After those that are already waiting for a chunk.
      first.servedStep = this.#steps - 1;
      this.#running.insert(first);
      this.#runningSlots += first.slots;
    }
  }

  /** Takes the blocks of all known tokens, and leaves one free for each running sequence, which may need it soon. */
  #fits(sequence: ScheduledSequence): boolean {
    if (this.#isUnfit(sequence)) return false;
    sequence.adopt();
    const missing = this.#blocksFor(sequence.length) - sequence.table.blocks.length;
    if (missing + this.#running.length <= this.#pool.availableBlocks && sequence.table.reserve(sequence.length))
      return true;
    sequence.cachedTokens = sequence.preemptions === 0 ? 0 : sequence.cachedTokens;
    sequence.release();
    this.#unfit = { sequence, returns: this.#pool.releases };
    return false;
  }

  #isUnfit(sequence: ScheduledSequence): boolean {
    return this.#unfit?.sequence === sequence && this.#unfit.returns === this.#pool.releases;
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

  #blocksFor(tokens: number): number {
    return Math.ceil(tokens / this.#pool.blockTokens);
  }
}
