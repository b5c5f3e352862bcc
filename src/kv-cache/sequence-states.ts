// The recurrent states of one sequence: the slot that holds them, and the slots that its next step writes. A slot is a
// value that forks and checkpoints share: a step reads one slot and writes another, or the same one if nothing else
// needs it, so no state is ever copied. A step may be queued while the one before it is under way: it reads what that one
// writes. Invariant: a slot that another sequence or a checkpoint holds is never written.

import type { BlockPool } from "./block-pool.js";

/** States that a step writes: after how many tokens of the sequence, and to which slot. */
interface StateWrite {
  readonly tokens: number;
  readonly slot: number;
  /** Whether a checkpoint is made of them; otherwise only a draft that is rejected needs them. */
  readonly isCheckpoint: boolean;
}

const NONE: readonly StateWrite[] = [];

/** The state slots of one sequence. */
export class SequenceStates implements Disposable {
  readonly #slots: BlockPool;
  #tokens = 0;
  #current: number | undefined;
  /** The slot that the next step writes after its last token; the current one if it is written in place. */
  #target: number | undefined;
  #end = 0;
  /** Further writes of the next step, in order. */
  #others: StateWrite[] = [];
  /** What the step of one token after the next one writes, if that is prepared already. */
  #following: { readonly slot: number; readonly tokens: number } | undefined;

  constructor(slots: BlockPool) {
    this.#slots = slots;
  }

  /** The slot that holds the states; −1 at the beginning of the sequence. */
  get slot(): number {
    return this.#current ?? -1;
  }

  /** The slot that the last step to be prepared reads; −1 at the beginning of the sequence. */
  get readSlot(): number {
    return (this.#following === undefined ? this.#current : this.#target) ?? -1;
  }

  /** Tokens after which the sequence had the states of its slot. */
  get tokens(): number {
    return this.#tokens;
  }

  /** Every slot that the sequence references. */
  get held(): readonly number[] {
    const own = new Set(this.#others.map(({ slot }) => slot));
    for (const slot of [this.#current, this.#target, this.#following?.slot]) if (slot !== undefined) own.add(slot);
    return [...own];
  }

  /**
   * Takes the slot that the next step writes. If there is none, but only the prefix index shares the current one, its
   * checkpoint is dropped. Returns false if other sequences hold all slots.
   */
  reserve(): boolean {
    if (this.#target !== undefined) return true;
    const current = this.#current;
    if (current !== undefined && !this.#slots.isShared(current)) this.#target = current;
    else this.#target = this.#slots.allocate(1)?.[0];
    if (this.#target === undefined && current !== undefined && this.#slots.references(current) === 1) {
      this.#slots.uncache(current);
      this.#target = current;
    }
    return this.#target !== undefined;
  }

  /** Prepares a step whose last token is the `end`-th of the sequence. Returns false if no slot can be written. */
  makeWritable(end: number): boolean {
    if (!this.reserve()) return false;
    this.#end = end;
    return true;
  }

  /**
   * Prepares the step after the next one, of one token, the `end`-th of the sequence: in place, or in another slot if the
   * states between the two steps may be kept. Returns false if the next step is no such step, or if no slot is spare.
   */
  makeFollowing(end: number, keepsBetween: boolean): boolean {
    if (this.#target === undefined || this.#others.length > 0) return false;
    const slot = this.#following?.slot ?? (keepsBetween ? this.#slotBehind(this.#target) : this.#target);
    if (slot === undefined) return false;
    this.#following = { slot, tokens: end };
    return true;
  }

  /**
   * Lets the next step also write the states after an earlier token of it, for a checkpoint. Returns false if there is no
   * slot for them.
   */
  alsoAfter(tokens: number): boolean {
    const known = this.#others.findIndex((write) => write.tokens === tokens);
    if (known < 0) return this.#add(tokens, true);
    this.#others[known] = { ...this.#others[known], isCheckpoint: true };
    return true;
  }

  /**
   * Lets the next step also write the states after each of `count` tokens from the `start`-th on, so that it can be cut
   * back to any of them. Returns after how many, fewer if slots are scarce: a draft saves some steps, but a checkpoint
   * that is evicted for it may cost the prefill of a whole conversation.
   */
  alsoAfterEach(start: number, count: number): number {
    const most = Math.min(count, this.#slots.spareBlocks);
    for (let index = 0; index < most; index++) if (!this.#add(start + index + 1, false)) return index;
    return most;
  }

  /** Lets the next step write the states after its last token alone. */
  onlyAfterLast(): void {
    const given = this.#others.map(({ slot }) => slot);
    this.#others = [];
    this.#slots.release(given);
  }

  /** Fills in the slots that the step writes; `rows` are the tokens of the step from the `start`-th of the sequence on. */
  fillWrites(rows: Int32Array, start: number): void {
    rows.fill(-1);
    if (this.#following !== undefined) {
      rows[this.#following.tokens - start - 1] = this.#following.slot;
      return;
    }
    for (const { tokens, slot } of this.#others) rows[tokens - start - 1] = slot;
    rows[this.#end - start - 1] = this.#target ?? -1;
  }

  /**
   * The step was computed: continues with the states that it wrote after `tokens` tokens, by default after all of them.
   * Returns the slots that it wrote before, which the caller releases.
   */
  advance(tokens = this.#end): readonly StateWrite[] {
    if (this.#target === undefined) return NONE;
    if (this.#target === this.#current && this.#others.length === 0 && tokens === this.#end) {
      this.#tokens = tokens;
      this.#clear();
      return NONE;
    }
    const writes = [...this.#others, { tokens: this.#end, slot: this.#target, isCheckpoint: true }];
    const next = writes.find((write) => write.tokens === tokens);
    if (next === undefined) throw new RangeError(`no state slot was written after ${tokens} tokens`);
    const given = writes.filter((write) => write.tokens > tokens).map(({ slot }) => slot);
    const isKept = [...writes, this.#following].some((write) => write?.slot === this.#current);
    if (this.#current !== undefined && !isKept) given.push(this.#current);
    this.#current = next.slot;
    this.#tokens = tokens;
    this.#clear();
    this.#slots.release(given);
    return writes.filter((write) => write.tokens < tokens);
  }

  /** Continues with the states of another slot, after `tokens` tokens. */
  share(slot: number, tokens: number): void {
    this.#slots.retain(slot);
    this[Symbol.dispose]();
    this.#current = slot;
    this.#tokens = tokens;
  }

  /** The states of a second sequence, which shares the current slot. */
  fork(): SequenceStates {
    const twin = new SequenceStates(this.#slots);
    if (this.#current !== undefined) this.#slots.retain(this.#current);
    twin.#current = this.#current;
    twin.#tokens = this.#tokens;
    // It is not the only owner any more.
    if (this.#target === this.#current) this.#target = undefined;
    return twin;
  }

  /** Releases all slots; the sequence begins again. */
  [Symbol.dispose](): void {
    const { held } = this;
    this.#current = undefined;
    this.#tokens = 0;
    this.#following = undefined;
    this.#clear();
    this.#slots.release(held);
  }

  #add(tokens: number, isCheckpoint: boolean): boolean {
    const slot = this.#slots.allocate(1)?.[0];
    if (slot !== undefined) this.#others.push({ tokens, slot, isCheckpoint });
    return slot !== undefined;
  }

  /**
   * A slot to write behind the step that writes `target`: the one that this step reads, if nothing else needs it, or a
   * spare one.
   */
  #slotBehind(target: number): number | undefined {
    const current = this.#current;
    if (current !== undefined && current !== target && !this.#slots.isShared(current)) return current;
    return this.#slots.spareBlocks === 0 ? undefined : this.#slots.allocate(1)?.[0];
  }

  /** Goes on to the following step, if that is prepared already. */
  #clear(): void {
    this.#target = this.#following?.slot;
    this.#end = this.#following?.tokens ?? 0;
    this.#following = undefined;
    this.#others = [];
  }
}
