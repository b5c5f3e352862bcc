// The requests on a connection and their responses; a client may send several requests before it reads the first
// response. Invariants: an exchange is over when its response is sent or its connection is closed, also if it waited
// behind another one (Node reports that only to the response that has the socket); a response is abandoned if its
// client reads none of it within the time limit, but not while it reads anything.

import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";

/** One request of a connection, and its response. */
export interface ConnectionExchange {
  readonly id: string;
  readonly response: ServerResponse;
  /**
   * The status of a response that was sent on the connection itself, because the request could not be parsed to its
   * end.
   */
  brokenStatus: number | undefined;
}

/** The socket of a response, which Node does not assign yet if the response waits behind another. */
export function socketOf({ req }: ServerResponse): Socket {
  return req.socket;
}

/** Calls back once the response is sent or its connection is closed; call the result to stop listening. */
export function whenOver(response: ServerResponse, callback: () => void): () => void {
  const socket = socketOf(response);
  let isOver = false;
  const end = (): void => {
    isOver = true;
    response.off("close", over);
    socket.off("close", over);
  };
  const over = (): void => {
    // A closing socket also closes its response, and still calls listeners that were removed meanwhile.
    if (isOver) return;
    end();
    callback();
  };
  response.on("close", over);
  socket.on("close", over);
  return end;
}

/** Calls back if the client reads nothing of a response for `timeoutMs`; call the result to stop waiting. */
export function whenUnread(response: ServerResponse, timeoutMs: number, callback: () => void): () => void {
  const end = (): void => {
    response.off("timeout", callback).off("finish", end);
    response.socket?.setTimeout(0);
  };
  // The socket's idle time starts again with every byte that is sent.
  response.setTimeout(timeoutMs, callback);
  // Before the connection is passed on to the next response, or kept for the next request with a timeout of its own.
  response.prependListener("finish", end);
  return end;
}

/** The exchanges in flight of every connection. */
export class Exchanges {
  readonly #bySocket = new WeakMap<Socket, Set<ConnectionExchange>>();

  begin(id: string, response: ServerResponse): ConnectionExchange {
    const exchange: ConnectionExchange = { id, response, brokenStatus: undefined };
    const underWay = this.#underWay(socketOf(response));
    underWay.add(exchange);
    whenOver(response, () => underWay.delete(exchange));
    return exchange;
  }

  of(socket: Socket): readonly ConnectionExchange[] {
    return [...(this.#bySocket.get(socket) ?? [])];
  }

  #underWay(socket: Socket): Set<ConnectionExchange> {
    const known = this.#bySocket.get(socket);
    if (known !== undefined) return known;
    const underWay = new Set<ConnectionExchange>();
    this.#bySocket.set(socket, underWay);
    // Every exchange in flight listens to the socket; that is no leak.
    socket.setMaxListeners(0);
    return underWay;
  }
}
