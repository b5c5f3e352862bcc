// The responses of Ollama's chats and generations: chunks of a stream, each with the model and the time, and a last one
// with the counts and durations; or one object with all of it. Durations are in nanoseconds.

import type { ChatChoice, ChatEvent, ChatFinishReason, ChatResult } from "../../../completion/chat-event.js";
import type { CompletionSummary } from "../../../completion/completion-model.js";
import type { ChatToolCall } from "../../../chat/message.js";
import { isPlainObject, parsedJson } from "../../../plain-object.js";
import type { Tokenizer } from "../../../tokenizer/tokenizer.js";
import type { ChatWriter } from "../../completion/chat-handler.js";
import { type ShownLogprob, showLogprobs } from "../../completion/shown-logprobs.js";

const NANOSECONDS_PER_MS = 1e6;
const MS_PER_SECOND = 1000;

const DONE_REASONS = {
  stop: "stop",
  length: "length",
  timeout: "length",
  abort: "length",
  "tool-calls": "stop",
} as const satisfies Record<ChatFinishReason, string>;

/** A chunk of a stream; chunks have no type, and no name in the stream. */
export interface OllamaChunk {
  readonly type?: never;
  readonly [field: string]: unknown;
}

/** What a chunk adds to the reply. */
interface Content {
  readonly text?: string;
  readonly thinking?: string;
  readonly calls?: readonly object[];
}

/** Where the text of a reply is: in a message, or in the response itself. */
export type ReplyForm = (content: Content) => object;

/** The form of /api/chat. */
export const messageForm: ReplyForm = ({ text = "", thinking = "", calls = [] }) => ({
  message: {
    role: "assistant",
    content: text,
    ...(thinking === "" ? {} : { thinking }),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
  },
});

/** The form of /api/generate. */
export const responseForm: ReplyForm = ({ text = "", thinking = "" }) => ({
  response: text,
  ...(thinking === "" ? {} : { thinking }),
});

/** What every chunk of a reply is written with. */
interface WriterOptions {
  /** The model's name, as the response shows it. */
  readonly model: string;
  readonly tokenizer: Tokenizer;
  readonly form: ReplyForm;
  readonly hasLogprobs: boolean;
  /** The time that the request waited for its model. */
  readonly loadMs: number;
  /** The time since the request arrived. */
  readonly elapsedMs: () => number;
}

/** Writes a chat in the form of Ollama's API. */
export class OllamaWriter implements ChatWriter {
  readonly #options: WriterOptions;

  constructor(options: WriterOptions) {
    this.#options = options;
  }

  begin(): Iterable<OllamaChunk> {
    return [];
  }

  /** Calls are written when they are complete: this API has no deltas of arguments. */
  *add(event: ChatEvent): Generator<OllamaChunk, void, undefined> {
    const { tokenizer } = this.#options;
    switch (event.type) {
      case "text":
        if (event.text !== "" || event.tokens.length > 0)
          yield this.#chunk({ text: event.text }, showLogprobs(tokenizer, event));
        break;
      case "reasoning":
        yield this.#chunk({ thinking: event.text });
        break;
      case "tool-call":
        yield this.#chunk({ calls: [shownCall(event, event.index)] });
        break;
      case "tool-call-start":
      case "tool-call-delta":
      case "finish":
        break;
      default:
        event satisfies never;
    }
  }

  *end({ choices: [choice], summary }: ChatResult): Generator<OllamaChunk, void, undefined> {
    yield this.#last(this.#head({}), choice, summary);
  }

  response({ choices: [choice], summary }: ChatResult): object {
    const { text, reasoning: thinking, toolCalls, textTokens } = choice as ChatChoice;
    const logprobs = textTokens.flatMap((tokens) => showLogprobs(this.#options.tokenizer, tokens));
    return this.#last(this.#chunk({ text, thinking, calls: toolCalls.map(shownCall) }, logprobs), choice, summary);
  }

  #head(content: Content): OllamaChunk {
    const { model, form } = this.#options;
    return { model, created_at: new Date().toISOString(), ...form(content) };
  }

  #chunk(content: Content, logprobs: readonly ShownLogprob[] = []): OllamaChunk {
    const shown = this.#options.hasLogprobs && logprobs.length > 0 ? { logprobs } : {};
    return { ...this.#head(content), ...shown, done: false };
  }

  #last(head: object, { reason }: Pick<ChatChoice, "reason">, summary: CompletionSummary): OllamaChunk {
    const { loadMs, elapsedMs } = this.#options;
    return {
      ...head,
      done: true,
      done_reason: DONE_REASONS[reason],
      total_duration: nanoseconds(elapsedMs()),
      load_duration: nanoseconds(loadMs),
      ...evaluation(summary),
    };
  }
}

/** The counts and times of prefill and decoding. */
function evaluation({ promptTokens, promptMs, generatedTokens, tokensPerSecond }: CompletionSummary): object {
  // Clients divide count by duration: the rate that they show is the engine's.
  const decodeMs = tokensPerSecond > 0 ? (generatedTokens * MS_PER_SECOND) / tokensPerSecond : 0;
  return {
    prompt_eval_count: promptTokens,
    prompt_eval_duration: nanoseconds(promptMs),
    eval_count: generatedTokens,
    eval_duration: nanoseconds(decodeMs),
  };
}

/** A time as this API writes it. */
export function nanoseconds(milliseconds: number): number {
  return Math.round(milliseconds * NANOSECONDS_PER_MS);
}

/** Arguments are an object in this API; text that is none becomes an empty one. */
function shownCall({ id, name, arguments: text }: ChatToolCall, index: number): object {
  const given = parsedJson(text);
  return { id, function: { index, name, arguments: isPlainObject(given) ? given : {} } };
}
