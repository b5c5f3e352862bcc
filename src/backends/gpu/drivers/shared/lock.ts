// One at a time, in the order of asking. A lock that is free is taken without a turn of the loop: steps mostly find it so.

export class Lock {
  #isHeld = false;
  readonly #queue: (() => void)[] = [];
  readonly #watchers: (() => void)[] = [];

  get isIdle(): boolean {
    return !this.#isHeld;
  }

  /** Undefined where it was free: then it is the caller's already, who releases it in any case. */
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

  /** Resolves when nobody holds it and nobody waits for it. */
  async whenIdle(): Promise<void> {
    if (this.#isHeld) await new Promise<void>((resolve) => this.#watchers.push(resolve));
  }
}
