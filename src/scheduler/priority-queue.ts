// Sequences in the order of their queue positions, used for queued and running ones: the first queued sequence is
// admitted next, and the last running one is the first victim of preemption.

import { compareQueuePositions, type ScheduledSequence } from "./scheduled-sequence.js";

/** Sequences sorted by queue position. */
export class PriorityQueue implements Iterable<ScheduledSequence> {
  readonly #sequences: ScheduledSequence[] = [];

  get length(): number {
    return this.#sequences.length;
  }

  get first(): ScheduledSequence | undefined {
    return this.#sequences[0];
  }

  get last(): ScheduledSequence | undefined {
    return this.#sequences[this.#sequences.length - 1];
  }

  at(index: number): ScheduledSequence {
    return this.#sequences[index];
  }

  insert(sequence: ScheduledSequence): void {
    let index = this.#sequences.length;
    while (index > 0 && compareQueuePositions(sequence.queuePosition, this.#sequences[index - 1].queuePosition) < 0)
      index--;
    this.#sequences.splice(index, 0, sequence);
  }

  remove(sequence: ScheduledSequence): void {
    const index = this.#sequences.indexOf(sequence);
    if (index >= 0) this.#sequences.splice(index, 1);
  }

  [Symbol.iterator](): IterableIterator<ScheduledSequence> {
    return this.#sequences[Symbol.iterator]();
  }
}
