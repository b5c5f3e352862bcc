// What every route has at hand, and how a route is declared: a form, its work, its model.
// Invariant: a handler of a work route runs inside its Work, so that it is counted, cancelled and waited for.

import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { ServedModel } from "../../engine/serving.js";
import type { AccessControl } from "../http/access.js";
import { EventStream } from "../http/event-stream.js";
import { isLarge, jsonAnswer } from "../http/json-response.js";
import { judgeLists } from "../schema/list-schema.js";
import type { ServerMetrics } from "../http/metrics.js";
import type { ResolvedServerOptions } from "./server-options.js";
import { RequestError, toRequestError } from "../http/request-error.js";
import { type FieldPolicy, readRequest, type RequestForm } from "../schema/request-schema.js";
import type { TimeShare } from "../http/time-share.js";
import type { Tokenization } from "./tokenization.js";
import { ClientGoneError, type Work, type WorkInFlight } from "../http/request-tracker.js";

export interface ServerContext {
  readonly options: ResolvedServerOptions;
  readonly metrics: ServerMetrics;
  readonly inFlight: WorkInFlight;
  readonly share: TimeShare;
  readonly tokenization: Tokenization;
  readonly access: AccessControl;
}

declare module "fastify" {
  interface FastifyRequest {
    /** Of routes that are declared as work. */
    work: Work | undefined;
  }
  interface FastifyContextConfig {
    /** Counted, limited, cancelled when the client leaves. */
    readonly work?: boolean;
    /** Answered without a key. */
    readonly open?: boolean;
  }
}

export interface Exchange<Body> {
  readonly body: Body;
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  readonly work: Work;
}

export interface WorkRoute<Body> {
  readonly url: string;
  readonly form: RequestForm<Body>;
  /** Of a request, where it is less than elsewhere. */
  readonly bodyBytes?: number;
  /** The answer, or undefined where it was streamed. */
  readonly handle: (exchange: Exchange<Body>) => Promise<object | undefined>;
}

export function declareWork<Body>(
  app: FastifyInstance,
  context: ServerContext,
  { url, form, handle, bodyBytes = Infinity }: WorkRoute<Body>,
): void {
  const bodyLimit = Math.min(bodyBytes, context.options.limits.bodyBytes);
  app.post(url, { config: { work: true }, bodyLimit }, async (request, reply) => {
    const { work } = request;
    if (work === undefined) throw new RangeError(`${url} is declared as work`);
    return work.handle(async () => {
      if (isLarge(request.body)) await context.share.run(judgeLists(form.schema, request.body), work.signal);
      const policy: FieldPolicy = {
        strict: context.options.strict,
        reportUnknown: (fields) => request.log.warn({ fields }, "unknown fields were ignored"),
        reportSkipped: (skipped) => request.log.warn({ skipped }, "parts of the request were skipped"),
      };
      const body = context.share.doNow(() => readRequest(form, request.body, policy));
      try {
        const answer = await handle({ body, request, reply, work });
        return answer === undefined ? reply : await jsonAnswer(reply, answer, context.share, work.signal);
      } catch (error) {
        // Whatever was under way failed because it was cancelled: the reason for that is the answer.
        throw work.signal.aborted ? work.signal.reason : error;
      }
    });
  });
}

/** Runs `use` with the model that the request names, or with the only model that is served. */
export async function withModel<Result>(
  context: ServerContext,
  { work, request }: Pick<Exchange<unknown>, "work" | "request">,
  name: string | undefined,
  use: (model: ServedModel) => Promise<Result>,
): Promise<Result> {
  const { shelf } = context.options;
  const { signal } = work;
  let begun = false;
  const result = shelf.with(modelAsked(context, name), async (model) => {
    signal.throwIfAborted();
    begun = true;
    request.log.debug({ model: model.name }, "the model is there");
    return use(model);
  });
  return new Promise((resolve, reject) => {
    result.then(resolve, reject);
    // Loading hears no signal, and may take longer than the client cares to wait.
    signal.addEventListener("abort", () => (begun ? undefined : reject(signal.reason)), { once: true });
  });
}

/** Clients often have a provider's model names built in: if only one model is served, it answers to any name. */
function modelAsked({ options }: ServerContext, name: string | undefined): string {
  const [first, ...others] = options.shelf.list();
  if (first !== undefined && others.length === 0 && (name === undefined || !options.strict)) return first.name;
  if (name !== undefined) return name;
  throw new RequestError("[model] expected the name of a model, found nothing; GET /v1/models lists them", {
    status: 400,
    code: "invalid_value",
    param: "model",
  });
}

/**
 * Answers with events. `write` sends them; what fails before the first one has a status of its own, what fails later
 * becomes an event by `describeError`.
 */
export async function streamEvents(
  { options: { limits } }: ServerContext,
  { request, reply, work }: Exchange<unknown>,
  write: (stream: EventStream) => Promise<void>,
  describeError: (stream: EventStream, error: RequestError) => void,
): Promise<undefined> {
  const stream = new EventStream(reply.raw, {
    headers: reply.getHeaders(),
    unreadBytes: limits.unreadBytes,
    unreadTimeoutMs: limits.unreadTimeoutMs,
    keepAliveMs: limits.keepAliveMs,
    onOpen: () => reply.hijack(),
    onStuck: () => {
      request.log.warn("the client does not read its answer");
      work.cancel(new ClientGoneError());
    },
  });
  try {
    await write(stream);
  } catch (thrown) {
    const error: unknown = work.signal.aborted ? work.signal.reason : thrown;
    if (!stream.opened) throw error;
    if (!(error instanceof ClientGoneError)) {
      const answer = toRequestError(error);
      request.log[answer.status >= 500 ? "error" : "info"]({ err: error }, "a stream failed");
      describeError(stream, answer);
    }
  } finally {
    stream.end();
  }
  return undefined;
}
