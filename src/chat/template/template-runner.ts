// Renders templates in threads of their own, with limits, and remembers what it rendered. Failures are ChatErrors: those
// of the template in its own words (CHAT_TEMPLATE), those of its appetite (CHAT_LIMIT); too many chats at once are nobody's
// fault (SERVING_QUEUE_FULL). A renderer serves all models.

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
import type { RenderAnswer, RenderQuestion } from "./render-message.js";
import { TemplateTurns } from "./template-queue.js";

export interface TemplateRunnerOptions {
  readonly deadlineMs?: number;
  readonly threads?: number;
}

export type TemplateVariables = Readonly<Record<string, unknown>>;

const PLACE = "chat template";
/** Rendering takes milliseconds, so that a line of them is soon over. */
const RETRY_AFTER_MS = 1000;

export class TemplateRunner implements AsyncDisposable {
  readonly #worker: LimitedWorker;
  readonly #turns: TemplateTurns;
  readonly #cache = new LruCache<string, RenderedText>({
    maxEntries: MAX_CACHED_TEXTS,
    maxWeight: MAX_CACHED_CHARACTERS,
    weightOf: renderedCharacters,
  });

  constructor(options: TemplateRunnerOptions = {}) {
    refuseUnknownKeys(PLACE, options, ["deadlineMs", "threads"] satisfies (keyof TemplateRunnerOptions)[]);
    const threads = options.threads ?? RENDER_THREADS;
    // A template that takes all the time there is leaves a thread for the templates of other models.
    this.#turns = new TemplateTurns(Math.max(1, threads - 1), MAX_WAITING_RENDERINGS);
    this.#worker = new LimitedWorker({
      name: PLACE,
      file: builtFile(import.meta.url, "./render-thread.js"),
      deadlineMs: options.deadlineMs ?? RENDER_DEADLINE_MS,
      threads,
      heapMb: RENDER_HEAP_MB,
      maxQueued: MAX_WAITING_RENDERINGS,
    });
  }

  /** How many threads were started so far: each failure that a thread did not survive costs one. */
  get threadsStarted(): number {
    return this.#worker.threadsStarted;
  }

  async render(template: string, variables: TemplateVariables, signal?: AbortSignal): Promise<RenderedText> {
    const json = toJson(variables);
    const key = createHash("sha256").update(`${template.length}:`).update(template).update(json).digest("base64");
    const known = this.#cache.get(key);
    if (known !== undefined) return known;
    const [answer] = await this.#ask(template, [json], signal);
    if (answer?.kind !== "text") throw failure(answer);
    const { text, untrusted, timed } = answer;
    if (!timed) this.#cache.set(key, { text, untrusted });
    return { text, untrusted };
  }

  /** The text that each set of variables gives; undefined where the template refuses it. */
  async tryAll(
    template: string,
    variables: readonly TemplateVariables[],
    signal?: AbortSignal,
  ): Promise<readonly (string | undefined)[]> {
    const answers = await this.#ask(template, variables.map(toJson), signal);
    return answers.map((answer) => (answer.kind === "text" ? answer.text : undefined));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#worker[Symbol.asyncDispose]();
  }

  async #ask(
    template: string,
    variables: readonly string[],
    signal: AbortSignal | undefined,
  ): Promise<readonly RenderAnswer[]> {
    if (template.length > MAX_TEMPLATE_CHARACTERS)
      throw limit(`has ${template.length} characters, and ${MAX_TEMPLATE_CHARACTERS} are the most`);
    if (!(await this.#turns.take(template, signal)))
      throw queueFull(`${MAX_WAITING_RENDERINGS} chats wait for it already`);
    const outcome = await unlessAborted(this.#work({ template, variables }), signal);
    if (outcome.kind === "answer") return outcome.value;
    throw workerFailure(outcome);
  }

  /** Whoever asked may be gone: the turn ends with the work. */
  async #work(question: RenderQuestion): Promise<CallOutcome<readonly RenderAnswer[]>> {
    try {
      return await this.#worker.call<RenderQuestion, readonly RenderAnswer[]>(question);
    } finally {
      this.#turns.giveBack(question.template);
    }
  }
}

function toJson(variables: TemplateVariables): string {
  let json: string;
  try {
    json = JSON.stringify(variables);
  } catch (error) {
    // Too deep, or a ring.
    throw limit(
      `cannot be given its messages and tools: ${error instanceof Error ? error.message : String(error)}`,
      error,
    );
  }
  if (json.length > MAX_TEXT_CHARACTERS)
    throw limit(`was given ${json.length} characters of messages and tools, and ${MAX_TEXT_CHARACTERS} are the most`);
  return json;
}

function failure(answer: Exclude<RenderAnswer, { kind: "text" }> | undefined): ChatError {
  if (answer?.kind === "limit") return limit(answer.message);
  const reason = (answer?.message ?? "it gave nothing").slice(0, MAX_SHOWN_CHARACTERS);
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
