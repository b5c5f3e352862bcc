// The HTTP server: the framework, hooks around every request, the routes of the table, listening and stopping.
// Invariant: stopping refuses new requests, lets those in flight finish, and leaves no connection open.

import { type AddressInfo, isIP } from "node:net";
import Fastify, {
  type FastifyBaseLogger,
  type FastifyError,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  LogController,
} from "fastify";
import { pino } from "pino";
import { ChatCompletions } from "../completion/chat-completions.js";
import { Tokenization } from "../completion/tokenization.js";
import { standardErrorLog } from "../log/standard-streams.js";
import { refuseValue } from "../options.js";
import { registerRoute, type ServerContext } from "./completion/route-context.js";
import { resolveServerOptions, type ResolvedServerOptions, type ServerOptions } from "./completion/server-options.js";
import { AccessControl } from "./http/access.js";
import { ConnectionLimit } from "./http/connection-limit.js";
import { socketOf, whenUnread } from "./http/connection.js";
import { checkEncoding, readJsonBody } from "./http/json-body.js";
import { LocalListener } from "./http/local-listener.js";
import { ServerMetrics } from "./http/metrics.js";
import { createRequestId, MAX_URL_CHARACTERS, RequestAdmission, sendError } from "./http/request-admission.js";
import { RequestError } from "./http/request-error.js";
import { RequestTracker } from "./http/request-tracker.js";
import { TimeShare } from "./http/time-share.js";
import { versionedUrl } from "./http/versioned-url.js";
import { createRoutes } from "./routes/table.js";

/** An HTTP server for models. */
export interface Server {
  /** Resolves with the address when the server listens. */
  listen(): Promise<string>;
  /** Also accepts connections on this port of localhost, until the server stops; resolves with the address. */
  listenLocally(port: number): Promise<string>;
  /** `http://127.0.0.1:8080`; undefined before it listens. */
  readonly address: string | undefined;
  readonly requestsInFlight: number;
  /** Refuses new requests and lets those in flight finish, for at most `timeoutMs`; resolves when none is left. */
  stop(timeoutMs?: number): Promise<void>;
  readonly app: FastifyInstance;
}

const DEFAULT_STOP_TIMEOUT_MS = 30_000;
const KEEP_ALIVE_TIMEOUT_MS = 65_000;
/** How often the server looks for requests that do not arrive in time. */
const CONNECTIONS_CHECK_MS = 5000;
/** Connections that the system queues before they are accepted; a client beyond these has to retry a second later. */
const BACKLOG_CONNECTIONS = 4096;

/** Creates a server that does not listen yet. */
export function createServer(serverOptions: ServerOptions): Server {
  const options = resolveServerOptions(serverOptions);
  const context = createContext(options);
  const admission = new RequestAdmission(context);
  const app = createApp(options, admission, context.share);
  context.tracker.refuseUnreceived = (response, reason) => {
    const error = Object.assign(new Error("the body did not arrive in time"), { code: reason });
    admission.answerBroken(error, socketOf(response), app.log);
  };
  admission.connections = new ConnectionLimit(app.server, options.limits);
  addHooks(app, context, admission);
  for (const route of createRoutes(context)) registerRoute(app, context, route);
  return lifecycle(app, context);
}

function createContext(options: ResolvedServerOptions): ServerContext {
  const { pool, chat: renderer, grammar: grammars, limits, readiness, logDestination } = options;
  const tracker = new RequestTracker(limits);
  const metrics = new ServerMetrics({
    pool,
    requestsInFlight: () => tracker.count,
    isReady: () => readiness.status === "ok",
    droppedLogLines: () => (logDestination ?? standardErrorLog()).droppedLines ?? 0,
  });
  // The request that is being parsed counts as one itself.
  const share = new TimeShare(() => tracker.count > 1);
  const tokenization = new Tokenization(share);
  const chats = new ChatCompletions({ renderer, grammars, tokenization, limits, observer: metrics });
  return { options, metrics, tracker, access: new AccessControl(options.access), share, tokenization, chats };
}

function createApp(
  { limits, logLevel, logDestination }: ResolvedServerOptions,
  admission: RequestAdmission,
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
      // A missing Host header is refused by RequestAdmission, in the form of the API.
      requireHostHeader: false,
    },
    forceCloseConnections: true,
    // Requests that arrive while the server closes are answered by the routes, too.
    return503OnClosing: false,
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: MAX_URL_CHARACTERS },
    rewriteUrl: ({ url = "/" }) => versionedUrl(url),
    genReqId: createRequestId,
    clientErrorHandler: (error, socket) => admission.answerBroken(error, socket, logger),
    frameworkErrors: (error, request, reply) =>
      void admission.refuse(error, request as FastifyRequest, reply as FastifyReply),
  });
  // Expectations other than 100-continue are ignored; Node would answer them with an empty 417.
  app.server.on("checkExpectation", (request, response) => app.server.emit("request", request, response));
  app.removeAllContentTypeParsers();
  const bounds = { depth: limits.jsonDepth, values: limits.jsonValues, members: limits.jsonMembers };
  app.addContentTypeParser("application/json", { parseAs: "buffer" }, (request: FastifyRequest, body: Buffer) =>
    readJsonBody(body, bounds, share, request.inFlight?.signal),
  );
  return app;
}

function addHooks(
  app: FastifyInstance,
  { options: { limits }, tracker }: ServerContext,
  admission: RequestAdmission,
): void {
  app.decorateRequest("inFlight", undefined);

  app.addHook("onRequest", async (request, reply) => {
    admission.begin(request, reply);
    if (admission.admit(request, reply) === "preflight") return reply.code(204).send();
    const { refusal, tracked } = request.routeOptions.config;
    if (refusal !== undefined && !request.is404)
      throw new RequestError(refusal, { status: 501, code: "not_implemented" });
    if (tracked !== true) return undefined;
    checkEncoding(request.headers["content-encoding"]);
    request.inFlight = tracker.begin(reply.raw);
    return undefined;
  });

  // The body has been read by now.
  app.addHook("preValidation", async (request) => request.inFlight?.received());

  // A response that the client does not read must not keep its request alive.
  app.addHook("onSend", async (_, reply) => {
    whenUnread(reply.raw, limits.unreadTimeoutMs, () => reply.raw.destroy());
    if (tracker.stopping || admission.connections?.isReserved(socketOf(reply.raw)) === true)
      reply.header("connection", "close");
  });

  app.setErrorHandler<FastifyError>(sendError);
  app.setNotFoundHandler(async (request, reply) => {
    const problem = `[url] there is no endpoint ${request.method} ${request.url.slice(0, MAX_URL_CHARACTERS)}; GET /openapi.json lists all endpoints`;
    return sendError(new RequestError(problem, { status: 404, code: "not_found" }), request, reply);
  });
}

function lifecycle(app: FastifyInstance, { options, tracker, tokenization }: ServerContext): Server {
  let address: string | undefined;
  let stopped: Promise<void> | undefined;
  const listeners: LocalListener[] = [];
  const close = async (timeoutMs: number): Promise<void> => {
    await tracker.drain(timeoutMs);
    for (const listener of listeners) listener.close();
    await app.close();
    await tokenization[Symbol.asyncDispose]();
  };
  return {
    app,
    get address() {
      return address;
    },
    get requestsInFlight() {
      return tracker.count;
    },
    async listen() {
      await app.listen({ host: options.host, port: options.port, backlog: BACKLOG_CONNECTIONS });
      address = addressText(app.server.address() as AddressInfo);
      return address;
    },
    async listenLocally(port) {
      const listener = await LocalListener.open(app.server, port);
      listeners.push(listener);
      return listener.address;
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
