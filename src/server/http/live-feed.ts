// Sends what changes to the clients that watch it, as server-sent events. Invariants: no timer runs and nothing is read
// while no client watches; a client that reads slowly misses samples instead of buffering them, and its next event has
// everything that changed meanwhile; the number of clients is limited.

import type { FastifyReply, FastifyRequest } from "fastify";
import { whenOver } from "./connection.js";
import { EventStream } from "./event-stream.js";
import type { ServerLimits } from "./limits.js";
import { RequestError } from "./request-error.js";

/** What one client has not seen yet. */
export interface Watcher {
  /** The event for everything that changed since the last call; undefined if nothing did. */
  next(): { readonly event: string; readonly data: object } | undefined;
}

/** A browser has one for each open view; more are refused. */
const MAX_WATCHERS = 32;
const FULL_RETRY_AFTER_MS = 5000;

interface Watching {
  readonly stream: EventStream;
  readonly watcher: Watcher;
  /** Whether the client has more unread bytes than a stream may have. */
  isBehind: boolean;
}

/** The clients that watch one thing. */
export class LiveFeed {
  readonly #intervalMs: number;
  readonly #limits: Pick<ServerLimits, "unreadBytes" | "unreadTimeoutMs" | "keepAliveMs">;
  readonly #watching = new Set<Watching>();
  #timer: NodeJS.Timeout | undefined;

  constructor(intervalMs: number, limits: Pick<ServerLimits, "unreadBytes" | "unreadTimeoutMs" | "keepAliveMs">) {
    this.#intervalMs = intervalMs;
    this.#limits = limits;
  }

  /** Whether anything is being sampled. */
  get isActive(): boolean {
    return this.#timer !== undefined;
  }

  /** Answers the request with events until its client disconnects. */
  watch(request: FastifyRequest, reply: FastifyReply, watcher: Watcher): FastifyReply {
    if (this.#watching.size >= MAX_WATCHERS)
      throw new RequestError(`[server] ${MAX_WATCHERS} clients watch this already; try again later`, {
        status: 429,
        code: "rate_limit_exceeded",
        retryAfterMs: FULL_RETRY_AFTER_MS,
      });
    const stream = new EventStream(reply.raw, {
      ...this.#limits,
      framing: "sse",
      headers: reply.getHeaders(),
      onOpen: () => reply.hijack(),
      onStuck: () => request.log.warn("the client does not read the events that it watches"),
    });
    const watching: Watching = { stream, watcher, isBehind: false };
    this.#watching.add(watching);
    whenOver(reply.raw, () => this.#leave(watching));
    this.#send(watching);
    this.#timer ??= setInterval(() => this.#sample(), this.#intervalMs).unref();
    return reply;
  }

  /** Ends all streams. */
  close(): void {
    for (const watching of this.#watching) this.#leave(watching);
  }

  #sample(): void {
    for (const watching of this.#watching) this.#send(watching);
  }

  #send(watching: Watching): void {
    if (watching.isBehind) return;
    const next = watching.watcher.next();
    if (next === undefined) return;
    const read = watching.stream.send(next.data, next.event);
    if (read === undefined) return;
    watching.isBehind = true;
    void read.then(() => (watching.isBehind = false));
  }

  #leave(watching: Watching): void {
    if (!this.#watching.delete(watching)) return;
    watching.stream[Symbol.dispose]();
    if (this.#watching.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}

/** Whether a client asks for events rather than for one answer. */
export function wantsEvents({ method, headers }: FastifyRequest): boolean {
  return method === "GET" && /\btext\/event-stream\b/i.test(headers.accept ?? "");
}
