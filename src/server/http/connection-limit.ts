// How many connections there are, and which one is closed for another. Invariants: a new client is let in as long as a
// connection does nothing, those that never sent a byte first, oldest first; a connection with a request under way is never
// closed for another; beyond the limit a few are kept for checks of health, and answered nothing else.

import { readFileSync } from "node:fs";
import type { Server } from "node:http";
import type { Socket } from "node:net";
import type { ServerLimits } from "./limits.js";
import { RequestError } from "./request-error.js";

/** What the process opens beside connections: models, kernels, logs, its own pipes. */
const OTHER_DESCRIPTORS = 128;
/** However few descriptors the system gives. */
const FEWEST_CONNECTIONS = 16;
const FULL_RETRY_AFTER_MS = 1000;

export class ConnectionLimit {
  readonly #most: number;
  readonly #mostReserved: number;
  /** Requests under way on each connection. */
  readonly #requests = new Map<Socket, number>();
  /** Without a request; the one that has been so for longest comes first. */
  readonly #silent = new Set<Socket>();
  readonly #idle = new Set<Socket>();
  /** For checks of health; the oldest comes first. */
  readonly #reserved = new Set<Socket>();

  constructor(server: Server, { connections, reservedConnections }: ServerLimits) {
    this.#most = Math.min(
      connections,
      Math.max(FEWEST_CONNECTIONS, mostDescriptors() - OTHER_DESCRIPTORS - reservedConnections),
    );
    this.#mostReserved = reservedConnections;
    // The last one has to come in for another to make way.
    server.maxConnections = this.#most + reservedConnections + 1;
    server.on("connection", (socket) => this.#open(socket));
    // Before the framework hears of it, and may answer.
    server.prependListener("request", (request, response) => {
      const { socket } = request;
      this.#begin(socket);
      response.once("close", () => this.#end(socket));
    });
  }

  /** Throws where a connection is there for checks of health alone. */
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
    // At once: until it is told to have closed it would be chosen again.
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

/** How many files and connections the system lets this process have. */
function mostDescriptors(): number {
  try {
    const [, soft] = /^Max open files\s+(\d+)/m.exec(readFileSync("/proc/self/limits", "utf8")) ?? [];
    return soft === undefined ? Infinity : Number(soft);
  } catch {
    return Infinity;
  }
}
