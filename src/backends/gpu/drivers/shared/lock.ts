// A mutex, first come, first served. A free lock is taken without a turn of the event loop, which is the usual case for
// steps.

/** An asynchronous mutex that serves its callers in order. */
export class Lock {
  #isHeld = false;
  readonly #queue: (() => void)[] = [];
  readonly #watchers: (() => void)[] = [];

  get isIdle(): boolean {
    return !this.#isHeld;
  }

  /** Callers that wait for the lock. */
  get waiting(): number {
    return this.#queue.length;
  }

  /** Takes the lock; undefined if it was free and is now held by the caller. The caller releases it in either case. */
  take(): Promise<void> | undefined {
    if (this.#isHeld) return new Promise((resolve) => this.#queue.push(resolve));
    this.#isHeld = true;
    return undefined;
  }

  release(): void {
    const next = this.#queue.shift();
    if (next !== undefined) return next();
    this.#isHeld = false;
    for (const resolve of this.#watchers.splice(0)) resolve();
  }

  /** Resolves when the lock is free and no caller waits for it. */
  async whenIdle(): Promise<void> {
    if (this.#isHeld) await new Promise<void>((resolve) => this.#watchers.push(resolve));
  }
}
