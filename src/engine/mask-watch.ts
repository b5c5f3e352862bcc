// Masks that were asked for and are not there yet. A step waits a little for them, so that a constrained sequence keeps
// pace with its company; one that takes longer misses steps, and nobody waits for it a second time.

/** A mask takes well under a millisecond; a step is seldom shorter than this. */
const PATIENCE_MS = 5;

export class MaskWatch {
  #pending = 0;
  #patientUntilMs = 0;
  #wake: (() => void) | undefined;

  get isPatient(): boolean {
    return this.#pending > 0 && performance.now() < this.#patientUntilMs;
  }

  asked(): void {
    this.#pending++;
    this.#patientUntilMs = performance.now() + PATIENCE_MS;
  }

  settled(): void {
    this.#pending--;
    if (this.#pending === 0) this.#wake?.();
  }

  /** Until all are there or patience ends. */
  async wait(): Promise<void> {
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, this.#patientUntilMs - performance.now());
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    this.#wake = undefined;
  }
}
