// The limit on connections. Invariants: a new connection is accepted as long as another one is idle, which is closed
// for it: first those that never sent a byte, oldest first; a connection with a request in flight is never closed for
// another; beyond the limit a few are reserved for health checks, and other requests on them are refused.

import { readFileSync } from "node:fs";
import type { Server } from "node:http";
import type { Socket } from "node:net";
import type { ServerLimits } from "./limits.js";
import { RequestError } from "./request-error.js";

/** File descriptors for everything but connections: models, kernels, logs, pipes. */
const OTHER_DESCRIPTORS = 128;
/** The least number of connections, however few file descriptors the system allows. */
const FEWEST_CONNECTIONS = 16;
const FULL_RETRY_AFTER_MS = 1000;

/** Closes idle connections for new ones once the limit is reached. */
export class ConnectionLimit {
  readonly #most: number;
  readonly #mostReserved: number;
  /** Number of requests in flight on each connection. */
  readonly #requests = new Map<Socket, number>();
  /** Connections that have not sent a request yet; oldest first. */
  readonly #silent = new Set<Socket>();
  readonly #idle = new Set<Socket>();
  /** Connections reserved for health checks; oldest first. */
  readonly #reserved = new Set<Socket>();

  constructor(server: Server, { connections, reservedConnections }: ServerLimits) {
    this.#most = Math.min(
      connections,
      Math.max(FEWEST_CONNECTIONS, mostDescriptors() - OTHER_DESCRIPTORS - reservedConnections),
    );
    this.#mostReserved = reservedConnections;
    // A connection beyond the limit has to be accepted before another is closed for it.
    server.maxConnections = this.#most + reservedConnections + 1;
    server.on("connection", (socket) => this.#open(socket));
    // Before the framework handles the request, and may answer it.
    server.prependListener("request", (request, response) => {
      const { socket } = request;
      this.#begin(socket);
      response.once("close", () => this.#end(socket));
    });
  }

  /** Throws if the connection is reserved for health checks. */
  check(socket: Socket): void {
    if (!this.isReserved(socket)) return;
    throw new RequestError(`[server] ${this.#most} connections are in use already; try again later`, {
      status: 503,
      code: "too_many_connections",
      retryAfterMs: FULL_RETRY_AFTER_MS,
    });
  }

  isReserved(socket: Socket): boolean {
    return this.#reserved.has(socket);
  }

  #open(socket: Socket): void {
    socket.once("close", () => this.#forget(socket));
    if (
      this.#requests.size - this.#reserved.size < this.#most ||
      this.#evict(this.#firstSilent() ?? this.#idle.values().next().value)
    ) {
      this.#silent.add(socket);
    } else {
      if (this.#reserved.size >= this.#mostReserved) this.#evict(this.#reserved.values().next().value);
      this.#reserved.add(socket);
    }
    this.#requests.set(socket, 0);
  }

  #begin(socket: Socket): void {
    const count = this.#requests.get(socket);
    if (count === undefined) return;
    this.#requests.set(socket, count + 1);
    this.#silent.delete(socket);
    this.#idle.delete(socket);
  }

  #end(socket: Socket): void {
    const count = this.#requests.get(socket);
    if (count === undefined) return;
    this.#requests.set(socket, count - 1);
    if (count === 1 && !this.#reserved.has(socket)) this.#idle.add(socket);
  }

  #evict(victim: Socket | undefined): boolean {
    if (victim === undefined) return false;
    // At once: its "close" event comes later, and it would be chosen again until then.
    this.#forget(victim);
    victim.destroy();
    return true;
  }

  #forget(socket: Socket): void {
    this.#requests.delete(socket);
    this.#silent.delete(socket);
    this.#idle.delete(socket);
    this.#reserved.delete(socket);
  }

  /** Connections that have sent a part of their headers are evicted after those that have sent nothing. */
  #firstSilent(): Socket | undefined {
    for (const socket of this.#silent) {
      if (socket.bytesRead === 0) return socket;
      this.#silent.delete(socket);
      this.#idle.add(socket);
    }
    return undefined;
  }
}

/** The number of file descriptors that the system allows this process. */
function mostDescriptors(): number {
  try {
    const [, soft] = /^Max open files\s+(\d+)/m.exec(readFileSync("/proc/self/limits", "utf8")) ?? [];
    return soft === undefined ? Infinity : Number(soft);
  } catch {
    return Infinity;
  }
}
