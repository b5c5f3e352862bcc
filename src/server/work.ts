// The requests that are being answered: how many, since when, and the signal that ends each.
// Invariants: a client that leaves is cancelled at once; a request counts until its handler has returned and its answer
// is sent or given up; when the server stops, new ones are refused and those under way may end.

import { setMaxListeners } from "node:events";
import type { ServerResponse } from "node:http";
import { RequestError } from "./request-error.js";

const FULL_RETRY_AFTER_MS = 1000;
const STOPPING_RETRY_AFTER_MS = 5000;

/** For a client to be told that its request was cancelled. */
const LAST_WORDS_MS = 500;

/** Why a signal was given; the reason is the signal's own. */
export class ClientGoneError extends Error {
  constructor() {
    super("the client has gone");
    this.name = "ClientGoneError";
  }
}

export class Work {
  readonly #controller = new AbortController();
  readonly #response: ServerResponse;
  readonly #onEnd: () => void;
  #handlers = 0;
  #closed = false;

  constructor(response: ServerResponse, onEnd: () => void) {
    this.#response = response;
    this.#onEnd = onEnd;
    // A request of many prompts has as many listeners, and no leak.
    setMaxListeners(0, this.#controller.signal);
    // Comes after the last byte too, when there is nothing left to cancel.
    response.once("close", () => {
      this.#closed = true;
      this.#controller.abort(new ClientGoneError());
      this.#endWhenDone();
    });
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  cancel(reason: Error): void {
    this.#controller.abort(reason);
  }

  /** Whether or not the client has had its answer, or sent all of its request. */
  drop(): void {
    this.#response.destroy();
  }

  async handle<Result>(handler: () => Promise<Result>): Promise<Result> {
    this.#handlers++;
    try {
      return await handler();
    } finally {
      this.#handlers--;
      this.#endWhenDone();
    }
  }

  #endWhenDone(): void {
    if (this.#closed && this.#handlers === 0) this.#onEnd();
  }
}

export class WorkInFlight {
  readonly #limit: number;
  readonly #running = new Set<Work>();
  #whenIdle: (() => void)[] = [];
  #stopping = false;

  constructor(limit: number) {
    this.#limit = limit;
  }

  get count(): number {
    return this.#running.size;
  }

  get stopping(): boolean {
    return this.#stopping;
  }

  begin(response: ServerResponse): Work {
    if (this.#stopping) throw stoppingError();
    if (this.#running.size >= this.#limit) {
      throw new RequestError(`[server] ${this.#limit} requests are being answered already; try again later`, {
        status: 429,
        code: "rate_limit_exceeded",
        retryAfterMs: FULL_RETRY_AFTER_MS,
      });
    }
    const work: Work = new Work(response, () => this.#end(work));
    this.#running.add(work);
    return work;
  }

  /**
   * Takes no more, waits for what runs for so long, then cancels it, and lets go of clients that do not take their answer;
   * resolves when nothing runs.
   */
  async drain(timeoutMs: number): Promise<void> {
    this.#stopping = true;
    const cancelling = setTimeout(() => {
      for (const work of this.#running) work.cancel(stoppingError());
    }, timeoutMs);
    const dropping = setTimeout(() => {
      for (const work of this.#running) work.drop();
    }, timeoutMs + LAST_WORDS_MS);
    try {
      if (this.#running.size > 0) await new Promise<void>((resolve) => this.#whenIdle.push(resolve));
    } finally {
      clearTimeout(cancelling);
      clearTimeout(dropping);
    }
  }

  #end(work: Work): void {
    this.#running.delete(work);
    if (this.#running.size > 0) return;
    for (const resolve of this.#whenIdle.splice(0)) resolve();
  }
}

export function stoppingError(): RequestError {
  return new RequestError("[server] it is about to stop and takes no new work", {
    status: 503,
    code: "server_stopping",
    retryAfterMs: STOPPING_RETRY_AFTER_MS,
  });
}
