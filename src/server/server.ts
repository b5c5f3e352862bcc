// The HTTP server: hooks around every request, the routes, listening and stopping.
// Invariants: who may not speak is refused before a byte of the body is read; every answer, error or not, has a request
// id and the shape of its API; stopping refuses new work, lets what runs end, and leaves no connection behind.

import { randomUUID } from "node:crypto";
import { isIP, type AddressInfo } from "node:net";
import Fastify, { type FastifyBaseLogger, type FastifyError, type FastifyInstance, type FastifyReply, type FastifyRequest, LogController } from "fastify";
import { pino } from "pino";
import { refuseValue } from "../options.js";
import { AccessControl } from "./access.js";
import { declareChatCompletions } from "./chat-completions/route.js";
import { answerBrokenRequest } from "./broken-request.js";
import { declareCompletions } from "./completions/route.js";
import type { ServerContext } from "./context.js";
import { declareEmbeddings } from "./embeddings.js";
import { parseJsonBody } from "./json-body.js";
import { declareMessages } from "./messages/route.js";
import { ServerMetrics } from "./metrics.js";
import { resolveServerOptions, type ResolvedServerOptions, type ServerOptions } from "./options.js";
import { declarePlainRoutes } from "./plain-routes.js";
import { errorBody, RequestError, toRequestError } from "./request-error.js";
import { declareResponses } from "./responses/route.js";
import { declareTokenRoutes } from "./token-routes.js";
import { ClientGoneError, stoppingError, WorkInFlight } from "./work.js";

export interface Server {
  /** Resolves with the address when it listens. */
  listen(): Promise<string>;
  /** `http://127.0.0.1:8080`; undefined before it listens. */
  readonly address: string | undefined;
  /** Finishes what runs, for at most so long, and refuses what is new; resolves when nothing is left. */
  stop(timeoutMs?: number): Promise<void>;
  readonly app: FastifyInstance;
}

const DEFAULT_STOP_TIMEOUT_MS = 30_000;
const KEEP_ALIVE_TIMEOUT_MS = 65_000;
/** How often requests that do not arrive are looked for. */
const CONNECTIONS_CHECK_MS = 5000;
const LONGEST_PARAMETER_CHARACTERS = 512;
/** What a client that left would have got; no answer has it, only the counts. */
const CLIENT_GONE_STATUS = 499;

export function createServer(serverOptions: ServerOptions): Server {
  const options = resolveServerOptions(serverOptions);
  const inFlight = new WorkInFlight(options.limits.concurrentRequests);
  const metrics = new ServerMetrics(options.shelf, () => inFlight.count);
  const context: ServerContext = { options, metrics, inFlight };
  const app = createApp(options);
  declareHooks(app, context);
  declarePlainRoutes(app, context);
  declareTokenRoutes(app, context);
  declareChatCompletions(app, context);
  declareCompletions(app, context);
  declareEmbeddings(app, context);
  declareResponses(app, context);
  declareMessages(app, context);
  return lifecycle(app, context);
}

function createApp({ limits, logLevel, logDestination }: ResolvedServerOptions): FastifyInstance {
  const logger = pino({ level: logLevel, base: null }, logDestination ?? pino.destination(2));
  const app = Fastify({
    loggerInstance: logger as FastifyBaseLogger,
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit: limits.bodyBytes,
    requestTimeout: limits.receiveTimeoutMs,
    keepAliveTimeout: KEEP_ALIVE_TIMEOUT_MS,
    http: {
      maxHeaderSize: limits.headerBytes,
      headersTimeout: limits.receiveTimeoutMs,
      connectionsCheckingInterval: Math.min(limits.receiveTimeoutMs, CONNECTIONS_CHECK_MS),
    },
    forceCloseConnections: true,
    exposeHeadRoutes: false,
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: LONGEST_PARAMETER_CHARACTERS },
    genReqId: () => `req_${randomUUID().replaceAll("-", "")}`,
    clientErrorHandler: answerBrokenRequest,
    frameworkErrors: (error, request, reply) => void sendError(error, request as FastifyRequest, reply as FastifyReply),
  });
  app.server.maxConnections = limits.connections;
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("application/json", { parseAs: "buffer" }, async (_: FastifyRequest, body: Buffer) =>
    parseJsonBody(body, { depth: limits.jsonDepth, values: limits.jsonValues }),
  );
  return app;
}

function declareHooks(app: FastifyInstance, { options, metrics, inFlight }: ServerContext): void {
  const access = new AccessControl(options.access);
  app.decorateRequest("work", undefined);

  app.addHook("onRequest", async (request, reply) => {
    observe(request, reply, metrics);
    reply.header("x-request-id", request.id).header("request-id", request.id);
    access.checkHost(request.headers);
    const cors = access.corsHeaders(request.headers);
    if (cors !== undefined) {
      reply.headers(cors);
      if (request.method === "OPTIONS") return reply.headers(access.preflightHeaders(request.headers)).code(204).send();
    }
    const { config } = request.routeOptions;
    if (config.open !== true) access.checkKey(request.headers);
    if (config.work === true) request.work = inFlight.begin(reply.raw);
    else if (inFlight.stopping && config.open !== true) throw stoppingError();
    return undefined;
  });

  // An answer that nobody reads must not keep its request alive.
  app.addHook("onSend", async (_, reply) => {
    const { raw } = reply;
    const timer = setTimeout(() => raw.destroy(), options.limits.unreadTimeoutMs);
    raw.once("close", () => clearTimeout(timer));
    if (inFlight.stopping) reply.header("connection", "close");
  });

  app.setErrorHandler<FastifyError>(sendError);
  app.setNotFoundHandler(async (request, reply) => {
    const problem = `[url] ${request.method} ${request.url.slice(0, LONGEST_PARAMETER_CHARACTERS)} is nothing that this server has; GET /openapi.json lists what it has`;
    return sendError(new RequestError(problem, { status: 404, code: "not_found" }), request, reply);
  });
}

/** Counts and logs when the answer is sent or given up. */
function observe(request: FastifyRequest, reply: FastifyReply, metrics: ServerMetrics): void {
  const { raw } = reply;
  let sent = false;
  // It is said also of what is thrown away.
  raw.once("finish", () => {
    sent = !raw.destroyed;
  });
  raw.once("close", () => {
    const status = sent ? raw.statusCode : CLIENT_GONE_STATUS;
    const route = request.is404 ? undefined : request.routeOptions.url;
    metrics.countRequest({ route, status, seconds: reply.elapsedTime / 1000 });
    request.log.info({ method: request.method, route, status, durationMs: Math.round(reply.elapsedTime) }, "request");
  });
}

function sendError(thrown: unknown, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  if (thrown instanceof ClientGoneError) return reply.hijack();
  const error = toRequestError(thrown);
  if (error.status >= 500) request.log.error({ err: error.cause ?? error }, "a request failed");
  else request.log.debug({ code: error.code, param: error.param }, "a request was refused");
  if (error.retryAfterSeconds !== undefined) reply.header("retry-after", String(error.retryAfterSeconds));
  if (error.status === 503) reply.header("connection", "close");
  // Fastify would close it, and a client that still sends would see a broken connection instead of this answer. The rest
  // is read and thrown away, within the time that a request has to arrive.
  if (error.status === 413) reply.removeHeader("connection");
  return reply.code(error.status).type("application/json; charset=utf-8").send(errorBody(error, request.url, request.id));
}

function lifecycle(app: FastifyInstance, { options, inFlight }: ServerContext): Server {
  let address: string | undefined;
  let stopped: Promise<void> | undefined;
  return {
    app,
    get address() {
      return address;
    },
    async listen() {
      await app.listen({ host: options.host, port: options.port });
      address = addressText(app.server.address() as AddressInfo);
      return address;
    },
    stop(timeoutMs = DEFAULT_STOP_TIMEOUT_MS) {
      if (!(timeoutMs >= 0)) refuseValue("server", "timeoutMs", "milliseconds from 0 up", timeoutMs);
      stopped ??= inFlight.drain(timeoutMs).then(() => app.close());
      return stopped;
    },
  };
}

function addressText({ address, port }: AddressInfo): string {
  return `http://${isIP(address) === 6 ? `[${address}]` : address}:${port}`;
}
