// The HTTP server: hooks around every request, the routes, listening and stopping.
// Invariants: who may not speak is refused before a byte of the body is read; every answer, error or not, has a request
// id and the shape of its API; stopping refuses new work, lets what runs end, and leaves no connection behind.

import { randomUUID } from "node:crypto";
import { type AddressInfo, isIP, type Socket } from "node:net";
import Fastify, {
  type FastifyBaseLogger,
  type FastifyError,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  LogController,
} from "fastify";
import { pino } from "pino";
import { standardErrorLog } from "../log/standard-streams.js";
import { refuseValue } from "../options.js";
import { AccessControl } from "./http/access.js";
import { declareChatCompletions } from "./routes/openai/chat-completions/route.js";
import { answerBrokenRequest } from "./http/broken-request.js";
import { declareCompletions } from "./routes/openai/completions/route.js";
import { ConnectionLimit } from "./http/connection-limit.js";
import { Exchanges, socketOf, whenOver, whenUnread } from "./http/connection.js";
import type { ServerContext } from "./completion/route-context.js";
import { declareEmbeddings } from "./routes/openai/embeddings.js";
import { checkEncoding, readJsonBody } from "./http/json-body.js";
import { declareMessages } from "./routes/anthropic/messages/route.js";
import { ServerMetrics } from "./http/metrics.js";
import { resolveServerOptions, type ResolvedServerOptions, type ServerOptions } from "./completion/server-options.js";
import { declarePlainRoutes } from "./routes/native/plain-routes.js";
import { errorBody, RequestError, toRequestError } from "./http/request-error.js";
import { declareResponses } from "./routes/openai/responses/route.js";
import { TimeShare } from "./http/time-share.js";
import { declareTokenRoutes } from "./routes/native/token-routes.js";
import { Tokenization } from "./completion/tokenization.js";
import { versionedUrl } from "./http/versioned-url.js";
import { ClientGoneError, WorkInFlight } from "./http/request-tracker.js";

export interface Server {
  /** Resolves with the address when it listens. */
  listen(): Promise<string>;
  /** `http://127.0.0.1:8080`; undefined before it listens. */
  readonly address: string | undefined;
  /** Requests that are being answered. */
  readonly requestsInFlight: number;
  /** Finishes what runs, for at most so long, and refuses what is new; resolves when nothing is left. */
  stop(timeoutMs?: number): Promise<void>;
  readonly app: FastifyInstance;
}

const DEFAULT_STOP_TIMEOUT_MS = 30_000;
const KEEP_ALIVE_TIMEOUT_MS = 65_000;
/** How often requests that do not arrive are looked for. */
const CONNECTIONS_CHECK_MS = 5000;
/** That the system keeps for us: one more has to ask again, a second later. */
const WAITING_CONNECTIONS = 4096;
const LONGEST_PARAMETER_CHARACTERS = 512;
/** What a client that left would have got; no answer has it, only the counts. */
const CLIENT_GONE_STATUS = 499;

export function createServer(serverOptions: ServerOptions): Server {
  const options = resolveServerOptions(serverOptions);
  const inFlight = new WorkInFlight(options.limits);
  const metrics = new ServerMetrics({
    shelf: options.shelf,
    requestsInFlight: () => inFlight.count,
    isReady: () => options.readiness.status === "ok",
    droppedLogLines: () => (options.logDestination ?? standardErrorLog()).droppedLines ?? 0,
  });
  // The request that is being parsed counts as one itself.
  const share = new TimeShare(() => inFlight.count > 1);
  const context: ServerContext = {
    options,
    metrics,
    inFlight,
    access: new AccessControl(options.access),
    share,
    tokenization: new Tokenization(share),
  };
  const reception = new Reception(context);
  const app = createApp(options, reception, share);
  inFlight.refuseUnreceived = (response, reason) =>
    reception.answerBroken(Object.assign(new Error("not waited for"), { code: reason }), socketOf(response), app.log);
  reception.connections = new ConnectionLimit(app.server, options.limits);
  declareHooks(app, context, reception);
  declarePlainRoutes(app, context);
  declareTokenRoutes(app, context);
  declareChatCompletions(app, context);
  declareCompletions(app, context);
  declareEmbeddings(app, context);
  declareResponses(app, context);
  declareMessages(app, context);
  return lifecycle(app, context);
}

function createApp(
  { limits, logLevel, logDestination }: ResolvedServerOptions,
  reception: Reception,
  share: TimeShare,
): FastifyInstance {
  const logger = pino({ level: logLevel, base: null }, logDestination ?? standardErrorLog());
  const app = Fastify({
    loggerInstance: logger as FastifyBaseLogger,
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit: limits.bodyBytes,
    requestTimeout: limits.receiveTimeoutMs,
    keepAliveTimeout: KEEP_ALIVE_TIMEOUT_MS,
    http: {
      maxHeaderSize: limits.headerBytes,
      headersTimeout: Math.min(limits.headersTimeoutMs, limits.receiveTimeoutMs),
      connectionsCheckingInterval: Math.min(limits.headersTimeoutMs, limits.receiveTimeoutMs, CONNECTIONS_CHECK_MS),
      // It is missed here, in the shape of the API.
      requireHostHeader: false,
    },
    forceCloseConnections: true,
    // What is left to answer then has its answer from the routes, too.
    return503OnClosing: false,
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: LONGEST_PARAMETER_CHARACTERS },
    rewriteUrl: ({ url = "/" }) => versionedUrl(url),
    genReqId: createId,
    clientErrorHandler: (error, socket) => reception.answerBroken(error, socket, logger),
    frameworkErrors: (error, request, reply) =>
      void reception.refuse(error, request as FastifyRequest, reply as FastifyReply),
  });
  // What else a client expects is its own affair; Node would refuse it without a word.
  app.server.on("checkExpectation", (request, response) => app.server.emit("request", request, response));
  app.removeAllContentTypeParsers();
  const bounds = { depth: limits.jsonDepth, values: limits.jsonValues, members: limits.jsonMembers };
  app.addContentTypeParser("application/json", { parseAs: "buffer" }, (request: FastifyRequest, body: Buffer) =>
    readJsonBody(body, bounds, share, request.work?.signal),
  );
  return app;
}

function createId(): string {
  return `req_${randomUUID().replaceAll("-", "")}`;
}

function declareHooks(
  app: FastifyInstance,
  { options: { limits }, inFlight }: ServerContext,
  reception: Reception,
): void {
  app.decorateRequest("work", undefined);

  app.addHook("onRequest", async (request, reply) => {
    reception.begin(request, reply);
    if (reception.admit(request, reply) === "preflight") return reply.code(204).send();
    if (request.routeOptions.config.work !== true) return undefined;
    checkEncoding(request.headers["content-encoding"]);
    request.work = inFlight.begin(reply.raw);
    return undefined;
  });

  // Its body has been read.
  app.addHook("preValidation", async (request) => request.work?.received());

  // An answer that nobody reads must not keep its request alive.
  app.addHook("onSend", async (_, reply) => {
    whenUnread(reply.raw, limits.unreadTimeoutMs, () => reply.raw.destroy());
    if (inFlight.stopping || reception.connections?.isReserved(socketOf(reply.raw)) === true)
      reply.header("connection", "close");
  });

  app.setErrorHandler<FastifyError>(sendError);
  app.setNotFoundHandler(async (request, reply) => {
    const problem = `[url] ${request.method} ${request.url.slice(0, LONGEST_PARAMETER_CHARACTERS)} is nothing that this server has; GET /openapi.json lists what it has`;
    return sendError(new RequestError(problem, { status: 404, code: "not_found" }), request, reply);
  });
}

/** The first to see a request: its id, its place in the counts and in the log, and whether it may come in. */
class Reception {
  readonly #access: AccessControl;
  readonly #metrics: ServerMetrics;
  readonly #exchanges = new Exchanges();
  /** There once the server is. */
  connections: ConnectionLimit | undefined;

  constructor({ access, metrics }: ServerContext) {
    this.#access = access;
    this.#metrics = metrics;
  }

  /** Counts and logs when the answer is sent or given up. */
  begin(request: FastifyRequest, reply: FastifyReply): void {
    const { raw } = reply;
    const exchange = this.#exchanges.begin(request.id, raw);
    reply.header("x-request-id", request.id).header("request-id", request.id);
    let sent = false;
    // It is said also of what is thrown away.
    raw.once("finish", () => {
      sent = !raw.destroyed;
    });
    whenOver(raw, () => {
      const status = exchange.brokenStatus ?? (sent ? raw.statusCode : CLIENT_GONE_STATUS);
      const route = request.is404 ? undefined : request.routeOptions.url;
      this.#metrics.countRequest({ route, status, seconds: reply.elapsedTime / 1000 });
      const place = route === undefined ? { path: pathOf(request.url) } : { route };
      request.log.info(
        { method: request.method, ...place, status, durationMs: Math.round(reply.elapsedTime) },
        "request",
      );
    });
  }

  /** Throws where it may not. What a page asks before its request has its answer's headers then. */
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
    if (request.is404 || request.routeOptions.config.open !== true) {
      this.connections?.check(socketOf(reply.raw));
      this.#access.checkKey(headers);
    }
    return "request";
  }

  /** What the framework refuses before there is a route and its hooks. */
  refuse(error: unknown, request: FastifyRequest, reply: FastifyReply): FastifyReply {
    this.begin(request, reply);
    try {
      this.admit(request, reply);
    } catch (refusal) {
      return sendError(refusal, request, reply);
    }
    return sendError(error, request, reply);
  }

  answerBroken(error: Error, socket: Socket, log: Pick<FastifyBaseLogger, "info">): void {
    answerBrokenRequest({
      error,
      socket,
      exchanges: this.#exchanges.of(socket),
      createId,
      onAnswer: (id, status) => {
        this.#metrics.countRequest({ route: undefined, status, seconds: 0 });
        log.info({ reqId: id, status }, "request");
      },
    });
  }
}

/** Without its query, which may hold secrets. */
function pathOf(url: string): string {
  return url.slice(0, LONGEST_PARAMETER_CHARACTERS).split("?", 1)[0];
}

function sendError(thrown: unknown, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  // Nobody hears it; that the client left in the middle of its request is no fault of ours.
  if (thrown instanceof ClientGoneError || socketOf(reply.raw).destroyed) return reply.hijack();
  const error = toRequestError(thrown);
  if (error.status >= 500) request.log.error({ err: error.cause ?? error }, "a request failed");
  else request.log.debug({ code: error.code, param: error.param }, "a request was refused");
  if (error.retryAfterSeconds !== undefined) reply.header("retry-after", String(error.retryAfterSeconds));
  if (error.status === 503) reply.header("connection", "close");
  // Fastify would close it, and a client that still sends would see a broken connection instead of this answer. The rest
  // is read and thrown away, within the time that a request has to arrive.
  if (error.status === 413) reply.removeHeader("connection");
  return reply
    .code(error.status)
    .type("application/json; charset=utf-8")
    .send(errorBody(error, request.url, request.id));
}

function lifecycle(app: FastifyInstance, { options, inFlight, tokenization }: ServerContext): Server {
  let address: string | undefined;
  let stopped: Promise<void> | undefined;
  const close = async (timeoutMs: number): Promise<void> => {
    await inFlight.drain(timeoutMs);
    await app.close();
    await tokenization[Symbol.asyncDispose]();
  };
  return {
    app,
    get address() {
      return address;
    },
    get requestsInFlight() {
      return inFlight.count;
    },
    async listen() {
      await app.listen({ host: options.host, port: options.port, backlog: WAITING_CONNECTIONS });
      address = addressText(app.server.address() as AddressInfo);
      return address;
    },
    stop(timeoutMs = DEFAULT_STOP_TIMEOUT_MS) {
      if (!(timeoutMs >= 0)) refuseValue("server", "timeoutMs", "milliseconds from 0 up", timeoutMs);
      stopped ??= close(timeoutMs);
      return stopped;
    },
  };
}

function addressText({ address, port }: AddressInfo): string {
  return `http://${isIP(address) === 6 ? `[${address}]` : address}:${port}`;
}
