// Which tokens of which sequences go into the next step. Those that write come first, one token each; what is left goes
// to prompts. When blocks run out the last in line makes way and begins again later. Pure: no device.
// Invariants: only running sequences hold blocks; the first in line always gets the blocks it needs, so it always ends;
// within a priority nobody overtakes, and across priorities only those who have not waited long.

import type { BlockPool } from "../kv-cache/block-pool.js";
import type { CopyBlock } from "../kv-cache/block-table.js";
import type { SchedulerLimits } from "./limits.js";
import { Line } from "./priority-queue.js";
import { computable, sharePrompts } from "./prefill-budget.js";
import { placeAt, ScheduledSequence, type SequenceOptions } from "./scheduled-sequence.js";

/** Tokens of one sequence in one step: positions `start` to `start + count` − 1. */
export interface StepSlice {
  readonly sequence: ScheduledSequence;
  readonly start: number;
  readonly count: number;
  /** Output rows: none, the last token's, or every token's. */
  readonly outputs: number;
}

const NONE: ReadonlySet<ScheduledSequence> = new Set();

export type Submission = ScheduledSequence | "queue-full" | "too-large";

export class Scheduler {
  readonly limits: SchedulerLimits;
  readonly #pool: BlockPool;
  readonly #copyBlock: CopyBlock;
  readonly #queue = new Line();
  readonly #running = new Line();
  #arrivals = 0;
  #steps = 0;
  #runningSlots = 0;
  #preemptions = 0;
  /** The sequence that did not fit, and the pool's count of returned blocks then: without more it will not fit now. */
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

  /** Takes its place in line, unless that is full or the sequence could not run even alone. */
  submit(options: SequenceOptions): Submission {
    const { capacityTokens, slots, priority } = options;
    if (this.#blocksFor(capacityTokens) > this.#pool.blocks || slots > this.limits.sequences) return "too-large";
    if (!this.#hasRoomFor(slots)) return "queue-full";
    const sequence = new ScheduledSequence(options, placeAt(this.#steps, priority, this.#arrivals++), this.#pool);
    this.#queue.insert(sequence);
    return sequence;
  }

  /** A second one that goes on from where a running one is; it takes one of the places that were kept for it. */
  fork(sequence: ScheduledSequence): ScheduledSequence {
    if (sequence.state !== "running" || sequence.slots < 2)
      throw new RangeError("a running sequence with a place kept is forked, and no other");
    const { place, capacityTokens, tokens } = sequence;
    const options = { tokens, capacityTokens, priority: place.priority, slots: 1, everyRow: false };
    const twin = new ScheduledSequence(options, { ...place, fork: place.fork + sequence.slots - 1 }, this.#pool);
    twin.table = sequence.table.fork();
    twin.computed = sequence.computed;
    twin.state = "running";
    sequence.slots--;
    this.#running.insert(twin);
    return twin;
  }

  /** The next step, or undefined when there is nothing that can be computed now. */
  next(): readonly StepSlice[] | undefined {
    const step = ++this.#steps;
    const slices: StepSlice[] = [];
    for (let index = 0; index < this.#running.length; index++) {
      const sequence = this.#running.at(index);
      if (!sequence.isWriting || !sequence.isReady || !this.#makeRoom(sequence)) continue;
      sequence.servedStep = step;
      slices.push({ sequence, start: sequence.computed, count: 1, outputs: 1 });
    }
    this.#admit();
    const { stepTokens, stepOutputs, promptTokens, promptTokensBesideWriters } = this.limits;
    const most = slices.length > 0 ? promptTokensBesideWriters : promptTokens;
    const shares = sharePrompts(this.#prompts(step), {
      tokens: Math.min(most, stepTokens - slices.length),
      spareOutputs: stepOutputs - this.#running.length,
      blockTokens: this.#pool.blockTokens,
    });
    for (const { sequence, tokens } of shares) {
      sequence.servedStep = step;
      const endsPrompt = tokens === sequence.remaining ? 1 : 0;
      slices.push({
        sequence,
        start: sequence.computed,
        count: tokens,
        outputs: sequence.everyRow ? tokens : endsPrompt,
      });
    }
    return slices.length === 0 ? undefined : slices;
  }

  /**
   * The step has been computed. Sequences that were removed meanwhile are nobody's any more; what was computed of spoiled
   * ones is nothing that others may find.
   */
  advance(slices: readonly StepSlice[], spoiled: ReadonlySet<ScheduledSequence> = NONE): void {
    for (const { sequence, count } of slices) {
      if (sequence.state !== "running") continue;
      sequence.computed += count;
      if (spoiled.has(sequence)) sequence.table.invalidate();
      else sequence.table.commit(sequence.tokens, sequence.computed);
    }
  }

  /** Ends it, whatever it was doing; its blocks are free at once. */
  remove(sequence: ScheduledSequence): void {
    if (sequence.state === "queued") this.#queue.remove(sequence);
    if (sequence.state === "running") this.#leave(sequence);
    sequence.state = "ended";
  }

  /** Room for the next token, at the cost of the last in line; false when that is itself. */
  #makeRoom(sequence: ScheduledSequence): boolean {
    while (!sequence.table.makeWritable(sequence.computed, sequence.computed + 1, this.#copyBlock)) {
      const { last } = this.#running;
      if (last === undefined) throw new RangeError("blocks are held by nobody who runs");
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

  /** Whether one who comes now may wait. Whoever the next step lets in does not: those who come at once do not all wait. */
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
      // Behind those that wait for their share already.
      first.servedStep = this.#steps - 1;
      this.#running.insert(first);
      this.#runningSlots += first.slots;
    }
  }

  /** Takes all blocks for what is known of it, and leaves one to each that runs: who grows soon should not lose his place. */
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

  /** Those that are not in this step yet and have something to compute. */
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
