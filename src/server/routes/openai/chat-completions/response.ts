// The responses of /v1/chat/completions: one object, or its chunks.

import type { ChatChoice, ChatEvent, ChatFinishReason, ChatResult } from "../../../../completion/chat-event.js";
import type { Tokenizer } from "../../../../tokenizer/tokenizer.js";
import { type ResponseHead, responseTimings, usageOf } from "../../../completion/response-head.js";
import { type ShownLogprob, showLogprobs } from "../../../completion/shown-logprobs.js";

const FINISH_REASONS = {
  stop: "stop",
  length: "length",
  timeout: "length",
  abort: "length",
  "tool-calls": "tool_calls",
} as const satisfies Record<ChatFinishReason, string>;

/** A chunk of a stream; chunks have no type, and their events no name. */
interface ChatChunk {
  readonly type?: never;
  readonly [field: string]: unknown;
}

/** The fields of a request that determine what its response contains. */
interface ResponseFields {
  readonly logprobs?: boolean | undefined;
  readonly stream_options?: { readonly include_usage?: boolean | null | undefined } | undefined;
}

/** Writes a chat in the form of OpenAI's Chat Completions API. */
export class ChatCompletionWriter {
  readonly #head: ResponseHead;
  readonly #tokenizer: Tokenizer;
  readonly #hasLogprobs: boolean;
  readonly #hasUsage: boolean;
  /** Choices whose first chunk has been written. */
  readonly #begun = new Set<number>();

  constructor(head: ResponseHead, tokenizer: Tokenizer, { logprobs, stream_options: options }: ResponseFields) {
    this.#head = head;
    this.#tokenizer = tokenizer;
    this.#hasLogprobs = logprobs === true;
    this.#hasUsage = options?.include_usage === true;
  }

  /** Nothing: each choice begins with a chunk of its own. */
  begin(): Iterable<ChatChunk> {
    return [];
  }

  *add(event: ChatEvent): Generator<ChatChunk, void, undefined> {
    const { choice } = event;
    if (event.type === "tool-call") return;
    if (!this.#begun.has(choice)) yield this.#chunk(choice, { role: "assistant", content: "" });
    this.#begun.add(choice);
    switch (event.type) {
      case "text":
        yield this.#chunk(choice, { content: event.text }, { logprobs: showLogprobs(this.#tokenizer, event) });
        break;
      case "reasoning":
        yield this.#chunk(choice, { reasoning_content: event.text });
        break;
      case "tool-call-start": {
        const { index, id, name } = event;
        yield this.#chunk(choice, { tool_calls: [{ index, id, type: "function", function: { name, arguments: "" } }] });
        break;
      }
      case "tool-call-delta":
        yield this.#chunk(choice, { tool_calls: [{ index: event.index, function: { arguments: event.text } }] });
        break;
      case "finish":
        yield this.#chunk(choice, {}, { finish: FINISH_REASONS[event.ending.reason] });
        break;
      default:
        event satisfies never;
    }
  }

  end(result: ChatResult): Iterable<ChatChunk> {
    return this.#hasUsage
      ? [{ ...this.#common(), choices: [], usage: chatUsage(result), ...responseTimings(result.summary) }]
      : [];
  }

  response(result: ChatResult): object {
    return {
      ...this.#head,
      object: "chat.completion",
      choices: result.choices.map((choice, index) => ({
        index,
        message: messageOf(choice),
        logprobs: this.#logprobs(choice.textTokens.flatMap((tokens) => showLogprobs(this.#tokenizer, tokens))),
        finish_reason: FINISH_REASONS[choice.reason],
      })),
      usage: chatUsage(result),
      ...responseTimings(result.summary),
    };
  }

  #common(): object {
    return { ...this.#head, object: "chat.completion.chunk" };
  }

  #chunk(
    index: number,
    delta: object,
    { logprobs, finish }: { readonly logprobs?: readonly ShownLogprob[]; readonly finish?: string } = {},
  ): ChatChunk {
    const shown = logprobs === undefined ? null : this.#logprobs(logprobs);
    const usage = this.#hasUsage ? { usage: null } : {};
    return { ...this.#common(), choices: [{ index, delta, logprobs: shown, finish_reason: finish ?? null }], ...usage };
  }

  #logprobs(content: readonly ShownLogprob[]): object | null {
    return this.#hasLogprobs ? { content, refusal: null } : null;
  }
}

function chatUsage({ summary, usage }: ChatResult): object {
  return { ...usageOf(summary), completion_tokens_details: { reasoning_tokens: usage.reasoningTokens } };
}

function messageOf({ text, reasoning, toolCalls }: ChatChoice): object {
  return {
    role: "assistant",
    content: text === "" && toolCalls.length > 0 ? null : text,
    refusal: null,
    ...(reasoning === "" ? {} : { reasoning_content: reasoning }),
    ...(toolCalls.length === 0
      ? {}
      : {
          tool_calls: toolCalls.map((call) => ({
            id: call.id,
            type: "function",
            function: { name: call.name, arguments: call.arguments },
          })),
        }),
  };
}
