// What is not HTTP, too slow or too large in its headers: there is no request to answer, only a socket.

import type { Socket } from "node:net";
import { openAiErrorBody, RequestError } from "./request-error.js";

const REASONS: Readonly<Record<string, { readonly status: number; readonly phrase: string; readonly code: string; readonly problem: string }>> = {
  HPE_HEADER_OVERFLOW: {
    status: 431,
    phrase: "Request Header Fields Too Large",
    code: "headers_too_large",
    problem: "the headers are larger than this server takes",
  },
  ERR_HTTP_REQUEST_TIMEOUT: { status: 408, phrase: "Request Timeout", code: "request_timeout", problem: "the request did not arrive in time" },
};
const NOT_HTTP = { status: 400, phrase: "Bad Request", code: "invalid_request", problem: "this is not HTTP" } as const;

export function answerBrokenRequest(error: Error & { readonly code?: string }, socket: Socket): void {
  // Whoever reset the connection hears nothing any more.
  if (error.code === "ECONNRESET" || !socket.writable) {
    socket.destroy();
    return;
  }
  const { status, phrase, code, problem } = REASONS[error.code ?? ""] ?? NOT_HTTP;
  const body = JSON.stringify(openAiErrorBody(new RequestError(`[request] ${problem}`, { status, code })));
  const head = [
    `HTTP/1.1 ${status} ${phrase}`,
    "content-type: application/json; charset=utf-8",
    `content-length: ${Buffer.byteLength(body)}`,
    "connection: close",
  ];
  socket.end(`${head.join("\r\n")}\r\n\r\n${body}`);
}
