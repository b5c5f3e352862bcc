// What may succeed later, and how long it is tried again: broken connections, 5xx and 429 with its Retry-After. Tries
// are counted since the last progress, so that a long download survives any number of interruptions and a server that
// never delivers anything does not hold a caller for ever.

import { setTimeout as pause } from "node:timers/promises";
import { HubError } from "../errors.js";

/** How failures are tried again. */
export interface RetryPolicy {
  /** Tries without progress, the first included. */
  readonly tries: number;
  /** The pause before the second try; each further one is twice as long. */
  readonly firstPauseMs: number;
  /** A server that asks for a longer pause than this is not waited for. */
  readonly longestPauseMs: number;
  /** How long a connection may be silent. */
  readonly silenceMs: number;
}

/** The policy of the library. */
export const RETRY_POLICY: RetryPolicy = {
  tries: 6,
  firstPauseMs: 250,
  longestPauseMs: 120_000,
  silenceMs: 30_000,
};

/** Bytes after which a download counts as progressing again; fewer could be a server that sends one byte a time. */
const PROGRESS_BYTES = 64 * 1024;

/** A failure that may be over at the next try. */
export class TransientFailure extends Error {
  /** The pause that the server asked for. */
  readonly retryAfterMs: number | undefined;
  readonly isRateLimit: boolean;

  constructor(
    message: string,
    options: { readonly retryAfterMs?: number; readonly isRateLimit?: boolean; readonly cause?: unknown } = {},
  ) {
    super(message, { cause: options.cause });
    this.retryAfterMs = options.retryAfterMs;
    this.isRateLimit = options.isRateLimit ?? false;
  }
}

/** The tries of one request or one download. */
export class Retries {
  readonly #place: string;
  readonly #policy: RetryPolicy;
  readonly #signal: AbortSignal | undefined;
  #failures = 0;
  #bytes = 0;

  /** Messages begin with `place`, the model's name. */
  constructor(place: string, policy: RetryPolicy, signal: AbortSignal | undefined) {
    this.#place = place;
    this.#policy = policy;
    this.#signal = signal;
  }

  /** Counts bytes that arrived; enough of them make earlier failures forgotten. */
  progress(bytes: number): void {
    this.#bytes += bytes;
    if (this.#bytes < PROGRESS_BYTES) return;
    this.#bytes = 0;
    this.#failures = 0;
  }

  /** Waits until the next try; throws the failure as a HubError if there is none. */
  async next(failure: TransientFailure): Promise<void> {
    const { tries, firstPauseMs, longestPauseMs } = this.#policy;
    this.#failures++;
    this.#bytes = 0;
    const pauseMs = failure.retryAfterMs ?? firstPauseMs * 2 ** (this.#failures - 1);
    if (this.#failures >= tries || pauseMs > longestPauseMs) throw this.#given(failure, pauseMs);
    await pause(pauseMs, undefined, this.#signal === undefined ? {} : { signal: this.#signal }).catch(() => {});
    this.#signal?.throwIfAborted();
  }

  /** Runs `work` until it succeeds or fails for good. */
  async run<Result>(work: () => Promise<Result>): Promise<Result> {
    for (;;) {
      try {
        return await work();
      } catch (error) {
        if (!(error instanceof TransientFailure)) throw error;
        await this.next(error);
      }
    }
  }

  #given(failure: TransientFailure, pauseMs: number): HubError {
    const details = { place: this.#place, tries: this.#failures };
    if (failure.isRateLimit) {
      const seconds = Math.ceil(pauseMs / 1000);
      const message = `[hub] ${this.#place}: too many requests (429); try again in ${seconds} s, or set HF_TOKEN, which raises the limit`;
      return new HubError("HUB_RATE_LIMIT", message, { details: { ...details, retryAfterSeconds: seconds } });
    }
    const times = this.#failures === 1 ? "" : `, ${this.#failures} times in a row`;
    const message = `[hub] ${this.#place}: ${failure.message}${times}; check the connection and try again: a download resumes where it ended`;
    return new HubError("HUB_UNAVAILABLE", message, { details, cause: failure });
  }
}
