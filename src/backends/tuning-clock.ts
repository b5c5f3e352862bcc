// How long a tuner may go on: a budget of time in which it works, and a signal. Time in which it waits for requests to
// end does not count.

/** Ends when a budget is spent or a signal is aborted. */
export class TuningClock implements Disposable {
  readonly #startMs = performance.now();
  readonly #budgetMs: number;
  readonly #signal: AbortSignal | undefined;
  readonly #over: Promise<undefined>;
  #waitedMs = 0;
  /** Waits that have not ended, and when the first of them began. */
  #waits = 0;
  #waitStartMs = 0;
  #end: () => void = () => {};
  #timer: NodeJS.Timeout | undefined;

  constructor(budgetMs: number, signal?: AbortSignal) {
    this.#budgetMs = budgetMs;
    this.#signal = signal;
    this.#over = new Promise((resolve) => (this.#end = () => resolve(undefined)));
    signal?.addEventListener("abort", this.#end, { once: true });
    this.#watch();
  }

  get isOver(): boolean {
    return this.#signal?.aborted === true || this.#leftMs <= 0;
  }

  /** Milliseconds since the start, waiting included. */
  get elapsedMs(): number {
    return performance.now() - this.#startMs;
  }

  /** Waits for something without spending the budget. */
  async waitFor(work: Promise<unknown>): Promise<void> {
    if (this.#waits++ === 0) this.#waitStartMs = performance.now();
    await Promise.race([work, this.#over]);
    if (--this.#waits === 0) this.#waitedMs += performance.now() - this.#waitStartMs;
  }

  /** Resolves with the work, or with undefined when this is over. */
  async unlessOver<Result>(work: Promise<Result>): Promise<Result | undefined> {
    // Its failure may come too late to be noticed.
    work.catch(() => {});
    return await Promise.race([work, this.#over]);
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
    this.#signal?.removeEventListener("abort", this.#end);
    this.#end();
  }

  get #leftMs(): number {
    const waitingMs = this.#waits === 0 ? 0 : performance.now() - this.#waitStartMs;
    return this.#budgetMs - (this.elapsedMs - this.#waitedMs - waitingMs);
  }

  #watch(): void {
    if (this.isOver) return this.#end();
    this.#timer = setTimeout(() => this.#watch(), Math.min(Math.max(1, this.#leftMs), 2 ** 30)).unref();
  }
}
