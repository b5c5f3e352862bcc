// Turns of templates at the threads that render them: one template has at most so many at once, and others find a thread
// that is free. Invariant: whoever was given a turn gives it back once; who waits goes in order, and may leave.

interface Line {
  running: number;
  readonly waiting: (() => void)[];
}

export class TemplateTurns {
  readonly #most: number;
  readonly #maxWaiting: number;
  readonly #lines = new Map<string, Line>();

  constructor(most: number, maxWaiting: number) {
    this.#most = most;
    this.#maxWaiting = maxWaiting;
  }

  /** Resolves with false where too many wait already; rejects with the signal's reason. */
  async take(template: string, signal: AbortSignal | undefined): Promise<boolean> {
    const line = this.#lines.get(template) ?? { running: 0, waiting: [] };
    if (line.running < this.#most) {
      line.running++;
      this.#lines.set(template, line);
      return true;
    }
    if (line.waiting.length >= this.#maxWaiting) return false;
    return await new Promise<boolean>((resolve, reject) => {
      if (signal?.aborted === true) return reject(signal.reason as Error);
      const leave = (): void => {
        line.waiting.splice(line.waiting.indexOf(go), 1);
        reject(signal?.reason as Error);
      };
      const go = (): void => {
        signal?.removeEventListener("abort", leave);
        resolve(true);
      };
      signal?.addEventListener("abort", leave, { once: true });
      line.waiting.push(go);
    });
  }

  giveBack(template: string): void {
    const line = this.#lines.get(template);
    if (line === undefined) return;
    const next = line.waiting.shift();
    if (next !== undefined) return next();
    line.running--;
    if (line.running === 0) this.#lines.delete(template);
  }
}
