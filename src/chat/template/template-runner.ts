// Renders templates in worker threads with limits, and caches the results. Failures: CHAT_TEMPLATE with the template's
// own message, CHAT_LIMIT if it exceeds a limit, SERVING_QUEUE_FULL if too many renderings wait. One runner serves all
// models.

import { createHash } from "node:crypto";
import { ChatError, ServingError } from "../../errors.js";
import { LruCache } from "../../lru.js";
import { refuseUnknownKeys } from "../../options.js";
import { builtFile } from "../../worker/built-file.js";
import { type CallOutcome, LimitedWorker } from "../../worker/limited-worker.js";
import { unlessAborted } from "../../worker/unless-aborted.js";
import {
  MAX_CACHED_CHARACTERS,
  MAX_CACHED_TEXTS,
  MAX_SHOWN_CHARACTERS,
  MAX_TEMPLATE_CHARACTERS,
  MAX_TEXT_CHARACTERS,
  MAX_WAITING_RENDERINGS,
  RENDER_DEADLINE_MS,
  RENDER_HEAP_MB,
  RENDER_THREADS,
} from "../limits.js";
import { renderedCharacters, type RenderedText } from "../prompt-text.js";
import type { RenderReply, RenderRequest } from "./render-message.js";
import { TemplateQueue } from "./template-queue.js";

/** Limits of the render threads. */
export interface TemplateRunnerOptions {
  readonly deadlineMs?: number;
  readonly threads?: number;
}

/** The variables of a template. */
export type TemplateVariables = Readonly<Record<string, unknown>>;

const PLACE = "chat template";
/** Renderings take milliseconds, so a full queue is soon empty. */
const RETRY_AFTER_MS = 1000;

/** Renders templates in worker threads. */
export class TemplateRunner implements AsyncDisposable {
  readonly #worker: LimitedWorker;
  readonly #queue: TemplateQueue;
  readonly #cache = new LruCache<string, RenderedText>({
    maxEntries: MAX_CACHED_TEXTS,
    maxWeight: MAX_CACHED_CHARACTERS,
    weightOf: renderedCharacters,
  });

  constructor(options: TemplateRunnerOptions = {}) {
    refuseUnknownKeys(PLACE, options, ["deadlineMs", "threads"] satisfies (keyof TemplateRunnerOptions)[]);
    const threads = options.threads ?? RENDER_THREADS;
    // A template that is always slow leaves a thread for the templates of other models.
    this.#queue = new TemplateQueue(Math.max(1, threads - 1), MAX_WAITING_RENDERINGS);
    this.#worker = new LimitedWorker({
      name: PLACE,
      file: builtFile(import.meta.url, "./render-thread.js"),
      deadlineMs: options.deadlineMs ?? RENDER_DEADLINE_MS,
      threads,
      heapMb: RENDER_HEAP_MB,
      maxQueued: MAX_WAITING_RENDERINGS,
    });
  }

  /** Number of threads started so far, including replacements of threads that were ended. */
  get threadsStarted(): number {
    return this.#worker.threadsStarted;
  }

  async render(template: string, variables: TemplateVariables, signal?: AbortSignal): Promise<RenderedText> {
    const json = toJson(variables);
    const key = createHash("sha256").update(`${template.length}:`).update(template).update(json).digest("base64");
    const known = this.#cache.get(key);
    if (known !== undefined) return known;
    const [reply] = await this.#send(template, [json], signal);
    if (reply?.kind !== "text") throw failure(reply);
    const { text, untrusted, timed } = reply;
    if (!timed) this.#cache.set(key, { text, untrusted });
    return { text, untrusted };
  }

  /** Renders each set of variables; undefined for those that the template refuses. */
  async tryAll(
    template: string,
    variables: readonly TemplateVariables[],
    signal?: AbortSignal,
  ): Promise<readonly (string | undefined)[]> {
    const replies = await this.#send(template, variables.map(toJson), signal);
    return replies.map((reply) => (reply.kind === "text" ? reply.text : undefined));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#worker[Symbol.asyncDispose]();
  }

  async #send(
    template: string,
    variables: readonly string[],
    signal: AbortSignal | undefined,
  ): Promise<readonly RenderReply[]> {
    if (template.length > MAX_TEMPLATE_CHARACTERS)
      throw limit(`has ${template.length} characters, more than the maximum of ${MAX_TEMPLATE_CHARACTERS}`);
    if (!(await this.#queue.acquire(template, signal)))
      throw queueFull(`${MAX_WAITING_RENDERINGS} chats are already waiting for it`);
    const outcome = await unlessAborted(this.#render({ template, variables }), signal);
    if (outcome.kind === "answer") return outcome.value;
    throw workerFailure(outcome);
  }

  /** The rendering continues if its request was aborted, and is released when it ends. */
  async #render(request: RenderRequest): Promise<CallOutcome<readonly RenderReply[]>> {
    try {
      return await this.#worker.call<RenderRequest, readonly RenderReply[]>(request);
    } finally {
      this.#queue.release(request.template);
    }
  }
}

function toJson(variables: TemplateVariables): string {
  let json: string;
  try {
    json = JSON.stringify(variables);
  } catch (error) {
    // Nested too deeply, or circular.
    throw limit(
      `cannot be given its messages and tools: ${error instanceof Error ? error.message : String(error)}`,
      error,
    );
  }
  if (json.length > MAX_TEXT_CHARACTERS)
    throw limit(
      `was given ${json.length} characters of messages and tools, more than the maximum of ${MAX_TEXT_CHARACTERS}`,
    );
  return json;
}

function failure(reply: Exclude<RenderReply, { kind: "text" }> | undefined): ChatError {
  if (reply?.kind === "limit") return limit(reply.message);
  const reason = (reply?.message ?? "it returned nothing").slice(0, MAX_SHOWN_CHARACTERS);
  return new ChatError(
    "CHAT_TEMPLATE",
    `[${PLACE}] expected text, and the template refused: ${reason}; change the messages, or the template`,
    {
      details: { reason },
    },
  );
}

function workerFailure(outcome: Exclude<CallOutcome<unknown>, { kind: "answer" }>): ChatError | ServingError {
  switch (outcome.kind) {
    case "full":
      return queueFull(outcome.message);
    case "stopped":
      return limit(outcome.message);
    case "thrown":
      return limit(`failed: ${outcome.message}`);
    default:
      outcome satisfies never;
      return limit("failed");
  }
}

function limit(reason: string, cause?: unknown): ChatError {
  return new ChatError("CHAT_LIMIT", `[${PLACE}] expected a text within the limits, and rendering it ${reason}`, {
    details: { reason },
    cause,
  });
}

function queueFull(reason: string): ServingError {
  return new ServingError(
    "SERVING_QUEUE_FULL",
    `[${PLACE}] expected room for another chat, and ${reason}; try again later`,
    {
      details: { reason, retryAfterMs: RETRY_AFTER_MS },
    },
  );
}
