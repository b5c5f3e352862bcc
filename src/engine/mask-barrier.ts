// Masks that were asked for and are not there yet. A step waits a little for them, so that a constrained sequence keeps
// pace with its company; one that takes longer misses steps, and nobody waits for it a second time: each wait ends a
// round, and only the masks of the present one are waited for.

/** A mask takes well under a millisecond; a step is seldom shorter than this. */
const LONGEST_WAIT_MS = 5;

export class MaskBarrier {
  #round = 0;
  /** Of this round. */
  #pending = 0;
  #patientUntilMs = 0;
  #wake: (() => void) | undefined;

  get isWaiting(): boolean {
    return this.#pending > 0 && performance.now() < this.#patientUntilMs;
  }

  /** The round that the mask belongs to, to be told again when it is there. */
  asked(): number {
    this.#pending++;
    this.#patientUntilMs = performance.now() + LONGEST_WAIT_MS;
    return this.#round;
  }

  settled(round: number): void {
    if (round !== this.#round) return;
    this.#pending--;
    if (this.#pending === 0) this.#wake?.();
  }

  /** Until all of this round are there or patience ends. */
  async wait(): Promise<void> {
    if (this.#pending === 0) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, this.#patientUntilMs - performance.now());
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
