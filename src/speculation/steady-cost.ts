// A cost that a single sequence's drafts depend on. It is measured, but changes rarely: a mean that moved with every
// step would give drafts other lengths each time a program runs, and the batch of a step may change last bits of its
// logits, so that the same command could write another text.

/** Samples from which a new value is decided. */
const SAMPLES = 32;
/** The value stays while the median of the samples is within this factor of it. */
const BAND = 2.5;
/** Without samples for this many plain steps the first value is tried again. */
const RETRY_STEPS = 1024;

/** A cost in plain steps that follows its samples in large moves only, decided after a fixed number of them. */
export class SteadyCost {
  readonly #first: number;
  #samples: number[] = [];
  #value: number;
  #plainSteps = 0;

  constructor(first: number) {
    this.#first = first;
    this.#value = first;
  }

  get value(): number {
    return this.#value;
  }

  /** Records one measured cost. */
  measured(cost: number): void {
    this.#plainSteps = 0;
    this.#samples.push(cost);
    if (this.#samples.length < SAMPLES) return;
    const median = this.#samples.sort((left, right) => left - right)[SAMPLES / 2];
    this.#samples = [];
    if (median > this.#value * BAND || median < this.#value / BAND) this.#value = Math.max(median, this.#first / 100);
  }

  /** Records a step that had no such cost: a value that stopped all drafts is not kept for ever. */
  skipped(): void {
    if (++this.#plainSteps < RETRY_STEPS) return;
    this.#plainSteps = 0;
    this.#value = this.#first;
    this.#samples = [];
  }
}
