// What every route is made of: the server's context, an endpoint as data, and the exchange that its handler answers.
// Invariant: the handler of a POST route runs inside its in-flight request, so that it is counted, cancelled and waited for.

import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { ChatCompletions } from "../../completion/chat-completions.js";
import type { Tokenization } from "../../completion/tokenization.js";
import type { ModelLease } from "../../engine/serving.js";
import { RocmForgeError } from "../../errors.js";
import type { AccessControl } from "../http/access.js";
import { EventStream, type StreamFraming } from "../http/event-stream.js";
import { isLarge, jsonResponse } from "../http/json-response.js";
import type { ServerMetrics } from "../http/metrics.js";
import { type FieldNames, RequestError, toRequestError } from "../http/request-error.js";
import { ClientDisconnectedError, type InFlightRequest, type RequestTracker } from "../http/request-tracker.js";
import type { TimeShare } from "../http/time-share.js";
import { judgeLists } from "../schema/list-schema.js";
import { type FieldPolicy, readRequest, type RequestSchema } from "../schema/request-schema.js";
import type { ResolvedServerOptions } from "./server-options.js";

/** What all routes of one server share. */
export interface ServerContext {
  readonly options: ResolvedServerOptions;
  readonly metrics: ServerMetrics;
  readonly tracker: RequestTracker;
  readonly share: TimeShare;
  readonly tokenization: Tokenization;
  readonly chats: ChatCompletions;
  readonly access: AccessControl;
}

declare module "fastify" {
  interface FastifyRequest {
    /** Set for routes whose requests are tracked. */
    inFlight: InFlightRequest | undefined;
  }
  interface FastifyContextConfig {
    /** Whether requests are counted, limited, and cancelled when the client disconnects. */
    readonly tracked?: boolean;
    /** Whether no API key is needed. */
    readonly open?: boolean;
    /** Why every request is refused, before its body is read. */
    readonly refusal?: string;
    /** Whether it is answered on connections that are reserved for health checks. */
    readonly healthCheck?: boolean;
  }
}

/** One request and its reply. */
export interface Exchange<Body> {
  readonly body: Body;
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  readonly inFlight: InFlightRequest;
  /** The API's names for request fields that errors of lower layers name. */
  readonly fieldNames: FieldNames;
}

interface CommonRoute {
  /** As OpenAPI writes it: `/v1/models/{id}`. */
  readonly path: string;
  /** For the OpenAPI document. */
  readonly summary: string;
  /** Called when the server closes. */
  close?(): void;
}

/** An endpoint that takes a JSON body. */
export interface PostRoute<Body = unknown> extends CommonRoute {
  readonly method: "POST";
  readonly schema: RequestSchema<Body>;
  /** Whether the response may be a stream of events: true for server-sent events. */
  readonly streams?: boolean | StreamFraming;
  /** Limit on the body, if it is lower than the server's. */
  readonly maxBodyBytes?: number;
  /** The API's names for request fields that errors of lower layers name. */
  readonly fieldNames?: FieldNames;
  /** The response, or undefined if it was streamed. */
  handle(exchange: Exchange<Body>): Promise<object | undefined>;
}

/** An endpoint without a body, answered at once. */
export interface PlainRoute extends CommonRoute {
  readonly method: "GET" | "DELETE";
  /** False if the endpoint is open to clients without an API key. */
  readonly needsKey?: boolean;
  /** Whether it is answered even if all connections are in use. */
  readonly healthCheck?: boolean;
  /** Whether the response is a stream of events if the client accepts text/event-stream. */
  readonly streams?: boolean;
  /** Query parameters, all optional, with their descriptions. */
  readonly query?: Readonly<Record<string, string>>;
  handle(request: FastifyRequest, reply: FastifyReply): FastifyReply | Promise<FastifyReply>;
}

/** An endpoint of an API that this server does not have: requests are refused before their body is read. */
export interface RefusedRoute extends CommonRoute {
  readonly method: "POST" | "DELETE";
  /** What the client reads: why, and what to do instead. */
  readonly refusal: string;
}

/** An endpoint of the server. */
export type Route = PlainRoute | PostRoute | RefusedRoute;

/** Makes the routes of one endpoint for a server. */
export type RouteFactory = (context: ServerContext) => readonly Route[];

/** Registers a route with the HTTP framework. */
export function registerRoute(app: FastifyInstance, context: ServerContext, route: Route): void {
  const url = route.path.replaceAll(/\{(\w+)\}/g, ":$1");
  if (route.close !== undefined) app.addHook("onClose", async () => route.close?.());
  if ("refusal" in route) {
    const { method, refusal } = route;
    // The hook that admits requests throws; the handler is never called.
    app.route({ method, url, config: { refusal }, handler: (_, reply) => reply });
    return;
  }
  if (route.method !== "POST") {
    const config = { open: route.needsKey === false, healthCheck: route.healthCheck === true };
    app.route({ method: route.method, url, config, handler: (request, reply) => route.handle(request, reply) });
    return;
  }
  app.route({
    method: "POST",
    url,
    config: { tracked: true },
    bodyLimit: Math.min(route.maxBodyBytes ?? Infinity, context.options.limits.bodyBytes),
    handler: (request, reply) => answerPost(context, route, request, reply),
  });
}

async function answerPost(
  context: ServerContext,
  { path, schema, fieldNames = {}, handle }: PostRoute,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<object> {
  const { inFlight } = request;
  if (inFlight === undefined) throw new RangeError(`requests to ${path} are tracked`);
  using handling = inFlight.enter();
  const { signal } = handling;
  if (isLarge(request.body)) await context.share.run(judgeLists(schema.fields, request.body), signal);
  const policy: FieldPolicy = {
    strict: context.options.strict,
    reportUnknown: (fields) => request.log.warn({ fields }, "unknown fields were ignored"),
    reportSkipped: (skipped) => request.log.warn({ skipped }, "parts of the request were skipped"),
  };
  const body = context.share.doNow(() => readRequest(schema, request.body, policy));
  try {
    const response = await handle({ body, request, reply, inFlight, fieldNames });
    return response === undefined ? reply : await jsonResponse(reply, response, context.share, signal);
  } catch (error) {
    // Cancelling makes running work fail; the client gets the reason for the cancellation.
    if (signal.aborted) throw signal.reason;
    throw error instanceof RocmForgeError ? toRequestError(error, fieldNames) : error;
  }
}

/** Leases the model that the request names, or the only model that is served; it stays loaded until it is disposed. */
export async function acquireModel(
  { options }: ServerContext,
  { inFlight, request }: Pick<Exchange<unknown>, "inFlight" | "request">,
  name: string | undefined,
): Promise<ModelLease> {
  const lease = await options.pool.acquire(requestedModel(options, name), inFlight.signal);
  request.log.debug({ model: lease.model.name }, "the model is loaded");
  return lease;
}

/**
 * The name of the served model that a request means. Clients often have a provider's model names built in: if only one
 * model is served, it answers to any name.
 */
export function requestedModel(
  { pool, strict }: Pick<ResolvedServerOptions, "pool" | "strict">,
  name: string | undefined,
): string {
  const served = pool.list();
  const [first, ...others] = served;
  if (first !== undefined && others.length === 0 && (name === undefined || !strict)) return first.name;
  if (name !== undefined) return servedName(served, name);
  throw new RequestError("[model] expected the name of a model, found nothing; GET /v1/models lists them", {
    status: 400,
    code: "invalid_value",
    param: "model",
  });
}

/** The tag that Ollama's clients may append to a name that has none, or omit. */
export const LATEST = ":latest";

/** A name with or without the tag `:latest`, as it is served; the name itself if neither is. */
function servedName(served: readonly { readonly name: string }[], name: string): string {
  const spellings = [name, name.endsWith(LATEST) ? name.slice(0, -LATEST.length) : `${name}${LATEST}`];
  return spellings.find((spelling) => served.some((model) => model.name === spelling)) ?? name;
}

/** A response as a stream of events. The status is sent with the first event or keep-alive; dispose it to end it. */
export function openEventStream(
  { options: { limits } }: ServerContext,
  { request, reply, inFlight }: Exchange<unknown>,
  framing: StreamFraming = "sse",
): EventStream {
  return new EventStream(reply.raw, {
    framing,
    headers: reply.getHeaders(),
    unreadBytes: limits.unreadBytes,
    unreadTimeoutMs: limits.unreadTimeoutMs,
    keepAliveMs: limits.keepAliveMs,
    onOpen: () => reply.hijack(),
    onStuck: () => {
      request.log.warn("the client does not read its response");
      inFlight.cancel(new ClientDisconnectedError());
    },
  });
}

/** An event of a stream; its type, if it has one, is its name in the stream as well. */
export interface StreamEvent {
  readonly type?: string;
  readonly [field: string]: unknown;
}

/** Sends events; only generates them if the response is not streamed. */
export async function sendAll(output: EventStream | undefined, events: Iterable<StreamEvent>): Promise<void> {
  for (const event of events) if (output !== undefined) await output.send(event, event.type);
}

/** Reports a failure as the last event of a stream. Rethrows it if no status has been sent: the response then has its own. */
export function failStream(
  output: EventStream | undefined,
  { request, inFlight: { signal }, fieldNames }: Exchange<unknown>,
  thrown: unknown,
  describe: (error: RequestError) => StreamEvent,
): undefined {
  const error: unknown = signal.aborted ? signal.reason : thrown;
  if (output?.opened !== true) throw error;
  if (error instanceof ClientDisconnectedError) return undefined;
  const failure = toRequestError(error, fieldNames);
  request.log[failure.status >= 500 ? "error" : "info"]({ err: error }, "a stream failed");
  const event = describe(failure);
  void output.send(event, event.type);
  return undefined;
}
