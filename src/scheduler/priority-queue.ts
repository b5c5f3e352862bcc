// Sequences in the order of their queue positions. Waiting and running sequences are both kept so: the first that waits
// is admitted next, and the last that runs is the first victim of preemption.

import { compareQueuePositions, type ScheduledSequence } from "./scheduled-sequence.js";

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
