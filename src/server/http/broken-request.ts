// What is not HTTP, too slow or too large in its headers, or will not be waited for: there is no whole request to answer,
// only a connection.
// Invariants: what is said to it is the answer to what was broken and to nothing else; it is closed soon, whatever its
// client does.

import { STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import type { ConnectionExchange } from "./connection.js";
import { errorBody, RequestError } from "./request-error.js";

/** For the client to read its answer: closed at once, a connection takes with it what was not read. */
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
    problem: "the headers are larger than this server takes",
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

export interface BrokenRequest {
  readonly error: Error & { readonly code?: string };
  readonly socket: Socket;
  /** Of the connection, under way. */
  readonly exchanges: readonly ConnectionExchange[];
  /** Of an answer to what never was a request. */
  readonly createId: () => string;
  /** Told where such an answer was sent. */
  readonly onAnswer: (id: string, status: number) => void;
}

export function answerBrokenRequest({ error, socket, exchanges, createId, onAnswer }: BrokenRequest): void {
  const isReset = error.code === "ECONNRESET";
  // It was answered, and what its client goes on to send is thrown away.
  if (socket.writableEnded && !isReset) return;
  // Whoever reset the connection hears nothing any more, and whoever waits for an answer would take this for it.
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
  if (exchange === undefined) onAnswer(id, status);
  else exchange.brokenStatus = status;
}
