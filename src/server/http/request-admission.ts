// The first code that sees a request: gives it an id, counts and logs it when it is over, and decides whether it is
// admitted. Invariants: a client without access is refused before a byte of its body is read; every response, errors
// included, has a request id and the form of its API.

import { randomUUID } from "node:crypto";
import type { Socket } from "node:net";
import type { FastifyBaseLogger, FastifyReply, FastifyRequest } from "fastify";
import type { AccessControl } from "./access.js";
import { answerBrokenRequest } from "./broken-request.js";
import type { ConnectionLimit } from "./connection-limit.js";
import { Exchanges, socketOf, whenOver } from "./connection.js";
import type { ServerMetrics } from "./metrics.js";
import { errorBody, RequestError, toRequestError } from "./request-error.js";
import { ClientDisconnectedError } from "./request-tracker.js";

/** The status that counts and logs show if the client disconnected before its response; it is never sent. */
const CLIENT_DISCONNECTED_STATUS = 499;
/** Characters of a URL that logs and errors show. */
export const MAX_URL_CHARACTERS = 512;

/** A new id for a request. */
export function createRequestId(): string {
  return `req_${randomUUID().replaceAll("-", "")}`;
}

/** Identifies, counts and admits requests. */
export class RequestAdmission {
  readonly #access: AccessControl;
  readonly #metrics: ServerMetrics;
  readonly #exchanges = new Exchanges();
  /** Set once the HTTP server exists. */
  connections: ConnectionLimit | undefined;

  constructor({ access, metrics }: { readonly access: AccessControl; readonly metrics: ServerMetrics }) {
    this.#access = access;
    this.#metrics = metrics;
  }

  /** Counts and logs the request when its response has been sent or abandoned. */
  begin(request: FastifyRequest, reply: FastifyReply): void {
    const { raw } = reply;
    const exchange = this.#exchanges.begin(request.id, raw);
    reply.header("x-request-id", request.id).header("request-id", request.id);
    let sent = false;
    // Node emits "finish" for responses that are destroyed, too.
    raw.once("finish", () => {
      sent = !raw.destroyed;
    });
    whenOver(raw, () => {
      const status = exchange.brokenStatus ?? (sent ? raw.statusCode : CLIENT_DISCONNECTED_STATUS);
      const route = request.is404 ? undefined : request.routeOptions.url;
      this.#metrics.countRequest({ route, status, seconds: reply.elapsedTime / 1000 });
      const place = route === undefined ? { path: pathOf(request.url) } : { route };
      request.log.info(
        { method: request.method, ...place, status, durationMs: Math.round(reply.elapsedTime) },
        "request",
      );
    });
  }

  /** Throws if the request is not admitted. A browser's CORS preflight gets its headers and no handler. */
  admit(request: FastifyRequest, reply: FastifyReply): "preflight" | "request" {
    const { headers } = request;
    if (headers.host === undefined && request.raw.httpVersion === "1.1")
      throw new RequestError("[host] expected the header Host, found none", { status: 400, code: "invalid_request" });
    this.#access.checkHost(headers);
    const cors = this.#access.corsHeaders(headers);
    if (cors !== undefined) {
      reply.headers(cors);
      if (request.method === "OPTIONS") {
        reply.headers(this.#access.preflightHeaders(headers));
        return "preflight";
      }
    }
    const { open, healthCheck } = request.is404 ? {} : request.routeOptions.config;
    if (healthCheck !== true) this.connections?.check(socketOf(reply.raw));
    if (open !== true) this.#access.checkKey(headers);
    return "request";
  }

  /** Answers what the framework refuses before a route and its hooks are found. */
  refuse(error: unknown, request: FastifyRequest, reply: FastifyReply): FastifyReply {
    this.begin(request, reply);
    try {
      this.admit(request, reply);
    } catch (refusal) {
      return sendError(refusal, request, reply);
    }
    return sendError(error, request, reply);
  }

  /** Answers a request that could not be parsed, on its connection. */
  answerBroken(error: Error, socket: Socket, log: Pick<FastifyBaseLogger, "info">): void {
    answerBrokenRequest({
      error,
      socket,
      exchanges: this.#exchanges.of(socket),
      createId: createRequestId,
      onResponse: (id, status) => {
        this.#metrics.countRequest({ route: undefined, status, seconds: 0 });
        log.info({ reqId: id, status }, "request");
      },
    });
  }
}

/** Without its query, which may hold secrets. */
function pathOf(url: string): string {
  return url.slice(0, MAX_URL_CHARACTERS).split("?", 1)[0];
}

/** Sends an error in the form of the request's API. */
export function sendError(thrown: unknown, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  // No client is left to answer; a disconnect in the middle of a request is not the server's fault.
  if (thrown instanceof ClientDisconnectedError || socketOf(reply.raw).destroyed) return reply.hijack();
  const error = toRequestError(thrown);
  if (error.status >= 500) request.log.error({ err: error.cause ?? error }, "a request failed");
  else request.log.debug({ code: error.code, param: error.param }, "a request was refused");
  if (error.retryAfterSeconds !== undefined) reply.header("retry-after", String(error.retryAfterSeconds));
  if (error.status === 503) reply.header("connection", "close");
  // Fastify would close the connection, and a client that is still sending would see a reset instead of this response. The
  // rest of the body is read and discarded, within the time that a request has to arrive.
  if (error.status === 413) reply.removeHeader("connection");
  return reply
    .code(error.status)
    .type("application/json; charset=utf-8")
    .send(errorBody(error, request.url, request.id));
}
