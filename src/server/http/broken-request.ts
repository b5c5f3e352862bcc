// Answers connections whose request is not HTTP, too slow, too large in its headers, or refused before it has arrived:
// there is no complete request, only a connection. Invariants: the response answers the broken request and no other;
// the connection is closed soon, whatever its client does.

import { STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import type { ConnectionExchange } from "./connection.js";
import { errorBody, RequestError } from "./request-error.js";

/** Time for the client to read the response: closing a connection at once discards what was not read. */
const LAST_WORDS_MS = 1000;

interface Reason {
  readonly status: number;
  readonly code: string;
  readonly problem: string;
}

const REASONS: Readonly<Record<string, Reason>> = {
  HPE_HEADER_OVERFLOW: {
    status: 431,
    code: "headers_too_large",
    problem: "the headers are larger than this server accepts",
  },
  SLOW_BODY: {
    status: 408,
    code: "request_timeout",
    problem: "the request arrived too slowly while others waited for its place",
  },
  SERVER_STOPPING: {
    status: 503,
    code: "server_stopping",
    problem: "the server is about to stop, and the request had not arrived",
  },
  ERR_HTTP_REQUEST_TIMEOUT: { status: 408, code: "request_timeout", problem: "the request did not arrive in time" },
};
const NOT_HTTP: Reason = { status: 400, code: "invalid_request", problem: "this is not HTTP" };

/** A connection whose request could not be parsed. */
interface BrokenRequest {
  readonly error: Error & { readonly code?: string };
  readonly socket: Socket;
  /** The requests of the connection that have not been answered yet. */
  readonly exchanges: readonly ConnectionExchange[];
  /** Makes an id for a response that no request was parsed for. */
  readonly createId: () => string;
  /** Called when a response was sent on the connection itself. */
  readonly onResponse: (id: string, status: number) => void;
}

/** Sends an error on the connection, and closes it. */
export function answerBrokenRequest({ error, socket, exchanges, createId, onResponse }: BrokenRequest): void {
  const isReset = error.code === "ECONNRESET";
  // The request was answered, and whatever the client still sends is discarded.
  if (socket.writableEnded && !isReset) return;
  // A client that reset the connection cannot be answered, and one that waits for another response would take this one
  // for it.
  if (isReset || !socket.writable || exchanges.some(({ response }) => response.req.complete || response.headersSent)) {
    socket.destroy();
    return;
  }
  const [exchange] = exchanges;
  const { status, code, problem } = REASONS[error.code ?? ""] ?? NOT_HTTP;
  const id = exchange?.id ?? createId();
  const body = JSON.stringify(
    errorBody(new RequestError(`[request] ${problem}`, { status, code }), exchange?.response.req.url, id),
  );
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    "content-type: application/json; charset=utf-8",
    `content-length: ${Buffer.byteLength(body)}`,
    `x-request-id: ${id}`,
    `request-id: ${id}`,
    "connection: close",
  ];
  socket.end(`${head.join("\r\n")}\r\n\r\n${body}`);
  const closing = setTimeout(() => socket.destroy(), LAST_WORDS_MS).unref();
  socket.once("close", () => clearTimeout(closing));
  if (exchange === undefined) onResponse(id, status);
  else exchange.brokenStatus = status;
}
