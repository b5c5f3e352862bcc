// The requests in flight: their number, the bytes of them that are still arriving, and the signal that cancels each.
// Invariants: a request is cancelled as soon as its client disconnects; it counts until its handler has returned and
// its response is sent or abandoned; when the server stops, new requests are refused and those in flight may finish.

import { setMaxListeners } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import { socketOf, whenOver } from "./connection.js";
import { LONGEST_TIMER_MS, type ServerLimits } from "./limits.js";
import { RequestError } from "./request-error.js";

const FULL_RETRY_AFTER_MS = 1000;
const STOPPING_RETRY_AFTER_MS = 5000;

/** Time to tell a client that its request was cancelled. */
const LAST_WORDS_MS = 500;
/** Time for requests that are arriving when the server stops; most of them arrive in a moment. */
const ARRIVAL_MS = 1000;
/** A request that takes longer than this to arrive is refused if there is no room for another. */
const SLOW_ARRIVAL_MS = 2000;

/** Why a request is refused before all of it has arrived. */
type UnreceivedReason = "SERVER_STOPPING" | "SLOW_BODY";

/** The reason of the signal of a request whose client disconnected. */
export class ClientDisconnectedError extends Error {
  constructor() {
    super("the client disconnected");
    this.name = "ClientDisconnectedError";
  }
}

interface RequestListeners {
  /** Called when the body has arrived, or will not arrive. */
  readonly received: () => void;
  readonly ended: () => void;
}

/** One request in flight, with the signal that cancels it. */
export class InFlightRequest {
  readonly #controller = new AbortController();
  readonly #response: ServerResponse;
  readonly #listeners: RequestListeners;
  readonly #beganMs = performance.now();
  #handlers = 0;
  #isOver = false;
  #isReceived = false;

  constructor(response: ServerResponse, listeners: RequestListeners) {
    this.#response = response;
    this.#listeners = listeners;
    // A request of many prompts has as many listeners; that is no leak.
    setMaxListeners(0, this.#controller.signal);
    // Also called after the last byte of the response, when there is nothing left to cancel.
    whenOver(response, () => {
      this.#isOver = true;
      this.received();
      this.#controller.abort(new ClientDisconnectedError());
      this.#endWhenDone();
    });
  }

  get isReceived(): boolean {
    return this.#isReceived;
  }

  /** Whether the body has been arriving for longer than a well-behaved client needs. */
  get isSlow(): boolean {
    return !this.#isReceived && performance.now() - this.#beganMs > SLOW_ARRIVAL_MS;
  }

  get response(): ServerResponse {
    return this.#response;
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  cancel(reason: Error): void {
    this.#controller.abort(reason);
  }

  /** Closes the connection, whether or not the client has got its response. */
  drop(): void {
    socketOf(this.#response).destroy();
  }

  /** Called when the body has arrived, or will not arrive. */
  received(): void {
    if (this.#isReceived) return;
    this.#isReceived = true;
    this.#listeners.received();
  }

  /** Called by the handler of the request, which disposes the result when it is done; the signal cancels it. */
  enter(): { readonly signal: AbortSignal } & Disposable {
    this.#handlers++;
    return {
      signal: this.signal,
      [Symbol.dispose]: () => {
        this.#handlers--;
        this.#endWhenDone();
      },
    };
  }

  #endWhenDone(): void {
    if (this.#isOver && this.#handlers === 0) this.#listeners.ended();
  }
}

/** Counts, limits and drains the requests in flight. */
export class RequestTracker {
  /** Answers a request that has not arrived completely, and closes its connection. */
  refuseUnreceived: (response: ServerResponse, reason: UnreceivedReason) => void = (response) =>
    socketOf(response).destroy();
  readonly #limits: ServerLimits;
  readonly #running = new Set<InFlightRequest>();
  /** Bytes of the bodies that have not arrived completely. */
  #receivingBytes = 0;
  #whenIdle: (() => void)[] = [];
  #stopping = false;
  /** Whether the server is stopping and no longer waits for requests that are arriving. */
  #isLate = false;

  constructor(limits: ServerLimits) {
    this.#limits = limits;
  }

  get count(): number {
    return this.#running.size;
  }

  get stopping(): boolean {
    return this.#stopping;
  }

  begin(response: ServerResponse): InFlightRequest {
    if (this.#stopping) throw stoppingError();
    const { concurrentRequests, receivingBytes } = this.#limits;
    const bodyBytes = this.#bodyBytes(response.req);
    const isCrowded = (): boolean => this.#running.size >= concurrentRequests;
    // A single body is always taken: it has a limit of its own.
    const isFlooded = (): boolean => this.#receivingBytes > 0 && this.#receivingBytes + bodyBytes > receivingBytes;
    if (isCrowded() || isFlooded()) this.#refuseSlow(() => !isCrowded() && !isFlooded());
    if (isCrowded()) throw busyError(`${concurrentRequests} requests are being answered already`);
    if (isFlooded()) throw busyError(`${this.#receivingBytes} bytes of other requests are arriving`);
    this.#receivingBytes += bodyBytes;
    const request: InFlightRequest = new InFlightRequest(response, {
      received: () => {
        this.#receivingBytes -= bodyBytes;
      },
      ended: () => this.#end(request),
    });
    this.#running.add(request);
    return request;
  }

  /**
   * Refuses new requests, waits for those in flight for `timeoutMs`, then cancels them, and disconnects clients that do
   * not read their response. Resolves when no request is left.
   */
  async drain(timeoutMs: number): Promise<void> {
    this.#stopping = true;
    const afterMs = Math.min(timeoutMs, LONGEST_TIMER_MS - LAST_WORDS_MS);
    const refusing = setTimeout(
      () => {
        this.#isLate = true;
        this.#refuseLate();
      },
      Math.min(ARRIVAL_MS, afterMs),
    );
    const cancelling = setTimeout(() => {
      for (const request of this.#running) request.cancel(stoppingError());
    }, afterMs);
    const dropping = setTimeout(() => {
      for (const request of this.#running) request.drop();
    }, afterMs + LAST_WORDS_MS);
    try {
      if (this.#running.size > 0) await new Promise<void>((resolve) => this.#whenIdle.push(resolve));
    } finally {
      clearTimeout(refusing);
      clearTimeout(cancelling);
      clearTimeout(dropping);
    }
  }

  /** Bytes that a body will take; one that is refused for its length takes none. */
  #bodyBytes({ headers }: IncomingMessage): number {
    const { bodyBytes } = this.#limits;
    const declared = headers["content-length"];
    if (declared === undefined) return headers["transfer-encoding"] === undefined ? 0 : bodyBytes;
    return Number(declared) <= bodyBytes ? Number(declared) : 0;
  }

  /** Refuses requests that arrive too slowly, until there is room. */
  #refuseSlow(hasRoom: () => boolean): void {
    for (const request of this.#running) {
      if (hasRoom()) return;
      if (request.isSlow) this.#refuse(request, "SLOW_BODY");
    }
  }

  #refuseLate(): void {
    for (const request of this.#running) {
      // A request before it on the same connection is answered first.
      const isAlone = ![...this.#running].some(
        (other) => other.isReceived && socketOf(other.response) === socketOf(request.response),
      );
      if (!request.isReceived && isAlone) this.#refuse(request, "SERVER_STOPPING");
    }
  }

  /** Refuses a request that has not arrived, and no longer counts it. */
  #refuse(request: InFlightRequest, reason: UnreceivedReason): void {
    this.refuseUnreceived(request.response, reason);
    // If the rest arrives after all, it is not handled.
    request.cancel(new ClientDisconnectedError());
    request.received();
    this.#end(request);
  }

  #end(request: InFlightRequest): void {
    if (!this.#running.delete(request)) return;
    if (this.#isLate) this.#refuseLate();
    if (this.#running.size > 0) return;
    for (const resolve of this.#whenIdle.splice(0)) resolve();
  }
}

function busyError(problem: string): RequestError {
  return new RequestError(`[server] ${problem}; try again later`, {
    status: 429,
    code: "rate_limit_exceeded",
    retryAfterMs: FULL_RETRY_AFTER_MS,
  });
}

/** The error of requests that arrive while the server is shutting down. */
export function stoppingError(): RequestError {
  return new RequestError("[server] the server is shutting down and accepts no new requests", {
    status: 503,
    code: "server_stopping",
    retryAfterMs: STOPPING_RETRY_AFTER_MS,
  });
}
