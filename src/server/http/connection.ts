// What a connection carries: requests and their answers, of which a client may send several before it reads the first.
// Invariants: an exchange is over when its answer is sent or its connection is gone, also where it waited behind another
// (Node tells that only the one that has the socket); an answer is given up when its client takes nothing of it for so
// long, and not while it takes any.

import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";

export interface ConnectionExchange {
  readonly id: string;
  readonly response: ServerResponse;
  /** Of an answer that went to the connection itself, because the request could not be understood to its end. */
  brokenStatus: number | undefined;
}

/** Of the connection, which a response that waits behind another does not have yet. */
export function socketOf({ req }: ServerResponse): Socket {
  return req.socket;
}

/** Calls back once; call the result when that does not matter any more. */
export function whenOver(response: ServerResponse, callback: () => void): () => void {
  const socket = socketOf(response);
  let isOver = false;
  const end = (): void => {
    isOver = true;
    response.off("close", over);
    socket.off("close", over);
  };
  const over = (): void => {
    // A socket that closes also closes its response, and goes on to tell those who have left meanwhile.
    if (isOver) return;
    end();
    callback();
  };
  response.on("close", over);
  socket.on("close", over);
  return end;
}

/** Calls back when nothing was taken of an answer for so long; call the result when that does not matter any more. */
export function whenUnread(response: ServerResponse, timeoutMs: number, callback: () => void): () => void {
  const end = (): void => {
    response.off("timeout", callback).off("finish", end);
    response.socket?.setTimeout(0);
  };
  // A socket's idle time: it begins anew with every byte that goes.
  response.setTimeout(timeoutMs, callback);
  // Before the connection is handed to the next answer, or kept for the next request with a time of its own.
  response.prependListener("finish", end);
  return end;
}

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
    // Each exchange under way listens to it, and that is no leak.
    socket.setMaxListeners(0);
    return underWay;
  }
}
