// The answers of /v1/chat/completions: one object, or chunks of it.

import { randomBytes } from "node:crypto";
import type { CompletionSummary } from "../../engine/serving.js";
import type { ChatEnding, ChatEvent, ChatOutcome } from "../chat-run.js";
import type { Tokenizer } from "../../tokenizer/tokenizer.js";
import { type ShownLogprob, showLogprob } from "../token-text.js";

const ID_BYTES = 12;

export function makeId(prefix: string): string {
  return `${prefix}${randomBytes(ID_BYTES).toString("hex")}`;
}

export function nowSeconds(): number {
  return Math.floor(Date.now() / 1000);
}

const FINISH_REASONS = { stop: "stop", length: "length", "tool-calls": "tool_calls" } as const satisfies Record<ChatEnding["reason"], string>;

export function usageOf({ promptTokens, generatedTokens, cachedTokens }: CompletionSummary): object {
  return {
    prompt_tokens: promptTokens,
    completion_tokens: generatedTokens,
    total_tokens: promptTokens + generatedTokens,
    prompt_tokens_details: { cached_tokens: cachedTokens },
  };
}

interface WrittenCall {
  readonly id: string;
  readonly name: string;
  arguments: string;
}

/** What one choice has come to. */
export class WrittenChoice {
  text = "";
  reasoning = "";
  readonly calls: WrittenCall[] = [];
  readonly logprobs: ShownLogprob[] = [];

  add(event: ChatEvent, tokenizer: Tokenizer): void {
    switch (event.kind) {
      case "text":
        this.text += event.text;
        for (const token of event.tokens) this.logprobs.push(showLogprob(tokenizer, token));
        break;
      case "reasoning":
        this.reasoning += event.text;
        break;
      case "call":
        this.calls[event.index] = { id: event.id, name: event.name, arguments: "" };
        break;
      case "arguments": {
        const call = this.calls[event.index];
        if (call !== undefined) call.arguments += event.text;
        break;
      }
      case "call-end":
        break;
      default:
        event satisfies never;
    }
  }
}

export interface AnswerHead {
  readonly id: string;
  readonly created: number;
  readonly model: string;
}

export function chatCompletion(
  { id, created, model }: AnswerHead,
  choices: readonly WrittenChoice[],
  { endings, summary }: ChatOutcome,
  wantsLogprobs: boolean,
): object {
  return {
    id,
    object: "chat.completion",
    created,
    model,
    choices: choices.map((choice, index) => ({
      index,
      message: messageOf(choice),
      logprobs: wantsLogprobs ? { content: choice.logprobs, refusal: null } : null,
      finish_reason: finishReason(endings[index]),
    })),
    usage: usageOf(summary),
  };
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
      : { tool_calls: toolCalls.map((call) => ({ id: call.id, type: "function", function: { name: call.name, arguments: call.arguments } })) }),
  };
}

function finishReason(ending: ChatEnding | undefined): string {
  return FINISH_REASONS[ending?.reason ?? "stop"];
}

/** The chunks of a stream: the role first, then what comes, the reasons it ended, and the usage where it was asked for. */
export class ChatChunks {
  readonly #head: AnswerHead;
  readonly #tokenizer: Tokenizer;
  readonly #wants: { readonly logprobs: boolean; readonly usage: boolean };
  readonly #begun = new Set<number>();

  constructor(head: AnswerHead, tokenizer: Tokenizer, wants: { readonly logprobs: boolean; readonly usage: boolean }) {
    this.#head = head;
    this.#tokenizer = tokenizer;
    this.#wants = wants;
  }

  *of(event: ChatEvent): Generator<object, void, undefined> {
    if (event.kind === "call-end") return;
    yield* this.#begin(event.choice);
    switch (event.kind) {
      case "text":
        yield this.#chunk(event.choice, { content: event.text }, { logprobs: event.tokens.map((token) => showLogprob(this.#tokenizer, token)) });
        break;
      case "reasoning":
        yield this.#chunk(event.choice, { reasoning_content: event.text });
        break;
      case "call":
        yield this.#chunk(event.choice, {
          tool_calls: [{ index: event.index, id: event.id, type: "function", function: { name: event.name, arguments: "" } }],
        });
        break;
      case "arguments":
        yield this.#chunk(event.choice, { tool_calls: [{ index: event.index, function: { arguments: event.text } }] });
        break;
      default:
        event satisfies never;
    }
  }

  *end({ endings, summary }: ChatOutcome): Generator<object, void, undefined> {
    for (const [choice, ending] of endings.entries()) {
      yield* this.#begin(choice);
      yield this.#chunk(choice, {}, { finish: finishReason(ending) });
    }
    if (this.#wants.usage) yield { ...this.#common(), choices: [], usage: usageOf(summary) };
  }

  *#begin(choice: number): Generator<object, void, undefined> {
    if (this.#begun.has(choice)) return;
    this.#begun.add(choice);
    yield this.#chunk(choice, { role: "assistant", content: "" });
  }

  #common(): object {
    const { id, created, model } = this.#head;
    return { id, object: "chat.completion.chunk", created, model };
  }

  #chunk(index: number, delta: object, { logprobs, finish }: { readonly logprobs?: readonly ShownLogprob[]; readonly finish?: string } = {}): object {
    const shown = this.#wants.logprobs && logprobs !== undefined ? { content: logprobs, refusal: null } : null;
    const usage = this.#wants.usage ? { usage: null } : {};
    return { ...this.#common(), choices: [{ index, delta, logprobs: shown, finish_reason: finish ?? null }], ...usage };
  }
}
