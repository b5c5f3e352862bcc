// A second port of localhost for the same server: connections are handed to the HTTP server, so that its limits, timeouts
// and its shutdown apply to them as to its own.

import { once } from "node:events";
import type { Server as HttpServer } from "node:http";
import { type AddressInfo, createServer, type Server } from "node:net";

const LOCALHOST = "127.0.0.1";

/** Accepts connections on a port of localhost for an HTTP server. */
export class LocalListener {
  readonly address: string;
  readonly #server: Server;

  private constructor(server: Server) {
    this.#server = server;
    this.address = `http://${LOCALHOST}:${(server.address() as AddressInfo).port}`;
  }

  /** Resolves when it listens; rejects if the port is not free. */
  static async open(http: HttpServer, port: number): Promise<LocalListener> {
    // As for the HTTP server's own connections: small chunks of a stream are sent at once.
    const server = createServer({ noDelay: true }, (socket) => http.emit("connection", socket));
    server.maxConnections = http.maxConnections;
    server.listen({ host: LOCALHOST, port });
    await once(server, "listening");
    return new LocalListener(server);
  }

  /** Accepts no more connections; those that it has accepted are the HTTP server's to close. */
  close(): void {
    this.#server.close();
  }
}
