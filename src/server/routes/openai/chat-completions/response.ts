// The answers of /v1/chat/completions: one object, or chunks of it. One writer serves both, and keeps what is said only
// where it is asked for as a whole.

import type { ChatEnding, ChatEvent } from "../../../completion/chat-reader.js";
import type { ChatOutcome } from "../../../completion/chat-run.js";
import type { Tokenizer } from "../../../../tokenizer/tokenizer.js";
import { type AnswerHead, usageOf } from "../../../completion/response-head.js";
import { type ShownLogprob, showLogprobs } from "../../../completion/token-text.js";

const FINISH_REASONS = { stop: "stop", length: "length", "tool-calls": "tool_calls" } as const satisfies Record<
  ChatEnding["reason"],
  string
>;

interface WrittenCall {
  readonly id: string;
  readonly name: string;
  arguments: string;
}

/** What one choice has come to. */
interface WrittenChoice {
  text: string;
  reasoning: string;
  readonly calls: WrittenCall[];
  readonly logprobs: ShownLogprob[];
}

/** Chunks have no type, and no name in the stream. */
export interface ChatChunk {
  readonly type?: never;
  readonly [field: string]: unknown;
}

export interface ChatCompletionWants {
  readonly choices: number;
  readonly stream: boolean;
  readonly logprobs: boolean;
  readonly usage: boolean;
}

export class ChatCompletionWriter {
  readonly #head: AnswerHead;
  readonly #tokenizer: Tokenizer;
  readonly #wants: ChatCompletionWants;
  readonly #written: readonly WrittenChoice[];
  readonly #begun = new Set<number>();

  constructor(head: AnswerHead, tokenizer: Tokenizer, wants: ChatCompletionWants) {
    this.#head = head;
    this.#tokenizer = tokenizer;
    this.#wants = wants;
    this.#written = Array.from({ length: wants.choices }, () => ({ text: "", reasoning: "", calls: [], logprobs: [] }));
  }

  /** Each choice begins on its own. */
  begin(): Iterable<ChatChunk> {
    return [];
  }

  add(event: ChatEvent): Iterable<ChatChunk> {
    if (this.#wants.stream) return this.#chunks(event);
    const choice = this.#written[event.choice];
    if (choice !== undefined) this.#keep(choice, event);
    return [];
  }

  end({ summary }: ChatOutcome): Iterable<ChatChunk> {
    return this.#wants.usage ? [{ ...this.#common(), choices: [], usage: usageOf(summary) }] : [];
  }

  answer({ endings, summary }: ChatOutcome): object {
    return {
      ...this.#head,
      object: "chat.completion",
      choices: this.#written.map((choice, index) => ({
        index,
        message: messageOf(choice),
        logprobs: this.#wants.logprobs ? { content: choice.logprobs, refusal: null } : null,
        finish_reason: FINISH_REASONS[endings[index]?.reason ?? "stop"],
      })),
      usage: usageOf(summary),
    };
  }

  #keep(choice: WrittenChoice, event: ChatEvent): void {
    switch (event.kind) {
      case "text":
        choice.text += event.text;
        for (const shown of showLogprobs(this.#tokenizer, event.tokens, event.droppedBytes))
          choice.logprobs.push(shown);
        break;
      case "reasoning":
        choice.reasoning += event.text;
        break;
      case "call":
        choice.calls[event.index] = { id: event.id, name: event.name, arguments: "" };
        break;
      case "arguments": {
        const call = choice.calls[event.index];
        if (call !== undefined) call.arguments += event.text;
        break;
      }
      case "call-end":
      case "end":
        break;
      default:
        event satisfies never;
    }
  }

  *#chunks(event: ChatEvent): Generator<ChatChunk, void, undefined> {
    const { choice } = event;
    if (event.kind === "call-end") return;
    if (!this.#begun.has(choice)) yield this.#chunk(choice, { role: "assistant", content: "" });
    this.#begun.add(choice);
    switch (event.kind) {
      case "text":
        yield this.#chunk(
          choice,
          { content: event.text },
          { logprobs: showLogprobs(this.#tokenizer, event.tokens, event.droppedBytes) },
        );
        break;
      case "reasoning":
        yield this.#chunk(choice, { reasoning_content: event.text });
        break;
      case "call": {
        const { index, id, name } = event;
        yield this.#chunk(choice, { tool_calls: [{ index, id, type: "function", function: { name, arguments: "" } }] });
        break;
      }
      case "arguments":
        yield this.#chunk(choice, { tool_calls: [{ index: event.index, function: { arguments: event.text } }] });
        break;
      case "end":
        yield this.#chunk(choice, {}, { finish: FINISH_REASONS[event.ending.reason] });
        break;
      default:
        event satisfies never;
    }
  }

  #common(): object {
    return { ...this.#head, object: "chat.completion.chunk" };
  }

  #chunk(
    index: number,
    delta: object,
    { logprobs, finish }: { readonly logprobs?: readonly ShownLogprob[]; readonly finish?: string } = {},
  ): ChatChunk {
    const shown = this.#wants.logprobs && logprobs !== undefined ? { content: logprobs, refusal: null } : null;
    const usage = this.#wants.usage ? { usage: null } : {};
    return { ...this.#common(), choices: [{ index, delta, logprobs: shown, finish_reason: finish ?? null }], ...usage };
  }
}

function messageOf({ text, reasoning, calls }: WrittenChoice): object {
  const toolCalls = calls.filter((call) => call !== undefined);
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
