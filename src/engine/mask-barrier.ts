// Masks that are being computed. A step waits briefly for them, so that constrained sequences stay in the batch; a mask
// that takes longer makes its sequence miss steps and is not waited for again: each wait ends a round, and only masks
// of the current round are waited for.

/** A mask takes well under a millisecond; a step is rarely shorter than this. */
const LONGEST_WAIT_MS = 5;

/** Decides how long a step waits for masks. */
export class MaskBarrier {
  #round = 0;
  /** Masks of this round that are not computed yet. */
  #pending = 0;
  #waitUntilMs = 0;
  #wake: (() => void) | undefined;

  /** Whether a step should wait for masks. */
  get isWaiting(): boolean {
    return this.#pending > 0 && performance.now() < this.#waitUntilMs;
  }

  /** Counts a requested mask; returns its round, for `settled`. */
  asked(): number {
    this.#pending++;
    this.#waitUntilMs = performance.now() + LONGEST_WAIT_MS;
    return this.#round;
  }

  /** Marks a mask of that round as computed or no longer needed. */
  settled(round: number): void {
    if (round !== this.#round) return;
    this.#pending--;
    if (this.#pending === 0) this.#wake?.();
  }

  /** Resolves when all masks of this round are settled, or after the longest wait. */
  async wait(): Promise<void> {
    if (this.#pending === 0) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, this.#waitUntilMs - performance.now());
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    this.#wake = undefined;
    this.#round++;
    this.#pending = 0;
  }
}
