// Limits the renderings of one template that run at the same time, so that other templates find a free thread.
// Invariant: every admitted rendering is released once; waiting ones are admitted in order, and may be aborted.

interface WaitingList {
  running: number;
  readonly waiting: (() => void)[];
}

/** Admits renderings of templates. */
export class TemplateQueue {
  readonly #most: number;
  readonly #maxWaiting: number;
  readonly #queues = new Map<string, WaitingList>();

  constructor(most: number, maxWaiting: number) {
    this.#most = most;
    this.#maxWaiting = maxWaiting;
  }

  /** Waits for admission; resolves with false if too many wait already, rejects with the signal's reason. */
  async acquire(template: string, signal: AbortSignal | undefined): Promise<boolean> {
    const list = this.#queues.get(template) ?? { running: 0, waiting: [] };
    if (list.running < this.#most) {
      list.running++;
      this.#queues.set(template, list);
      return true;
    }
    if (list.waiting.length >= this.#maxWaiting) return false;
    return await new Promise<boolean>((resolve, reject) => {
      if (signal?.aborted === true) return reject(signal.reason as Error);
      const leave = (): void => {
        list.waiting.splice(list.waiting.indexOf(start), 1);
        reject(signal?.reason as Error);
      };
      const start = (): void => {
        signal?.removeEventListener("abort", leave);
        resolve(true);
      };
      signal?.addEventListener("abort", leave, { once: true });
      list.waiting.push(start);
    });
  }

  release(template: string): void {
    const list = this.#queues.get(template);
    if (list === undefined) return;
    const next = list.waiting.shift();
    if (next !== undefined) return next();
    list.running--;
    if (list.running === 0) this.#queues.delete(template);
  }
}
