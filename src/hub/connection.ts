// What ends one request: its caller's signal, or a server that is silent. Invariant: a promise of `unlessEnded` is settled
// when the request ends, even if `fetch` ignores its signal. Undici was seen to leave a read pending for ever after an abort, where
// all bytes of the body had arrived and its end had not been noticed.

/** The lifetime of one request; disposing it forgets the caller's signal, which may outlive many requests. */
export class Connection implements Disposable {
  readonly #controller = new AbortController();
  readonly #signal: AbortSignal | undefined;
  readonly #ended: Promise<never>;
  #reject!: (reason: unknown) => void;

  constructor(signal: AbortSignal | undefined) {
    this.#signal = signal;
    this.#ended = new Promise<never>((_, reject) => (this.#reject = reject));
    this.#ended.catch(() => {});
    if (signal?.aborted === true) this.#follow();
    signal?.addEventListener("abort", this.#follow, { once: true });
  }

  /** For `fetch`. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  end(reason: unknown): void {
    this.#reject(reason);
    this.#controller.abort(reason);
  }

  /** What the promise gives, or the reason of an end that comes first. */
  unlessEnded<Value>(promise: Promise<Value>): Promise<Value> {
    return Promise.race([promise, this.#ended]);
  }

  [Symbol.dispose](): void {
    this.#signal?.removeEventListener("abort", this.#follow);
  }

  readonly #follow = (): void => this.end(this.#signal?.reason);
}
