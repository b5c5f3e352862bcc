// The responses of /v1/messages: a list of content blocks, and the events that build it. One writer makes both.
// Invariants: blocks open and close in order, one at a time; every block of the events is in the response.

import type { ChatEnding, ChatEvent, ChatResult } from "../../../../completion/chat-event.js";
import type { ChatStream } from "../../../../completion/chat-stream.js";
import type { CompletionSummary } from "../../../../completion/completion-model.js";
import { isPlainObject, parsedJson } from "../../../../plain-object.js";
import { makeId } from "../../../completion/response-head.js";

/** An event of a streamed message. */
interface MessageEvent {
  readonly type: string;
  readonly [field: string]: unknown;
}

const STOP_REASONS = {
  stop: "end_turn",
  length: "max_tokens",
  timeout: "max_tokens",
  abort: "max_tokens",
  "tool-calls": "tool_use",
} as const satisfies Record<ChatEnding["reason"], string>;

interface OpenBlock {
  readonly kind: "text" | "thinking" | "tool_use";
  readonly call?: { readonly id: string; readonly name: string };
  text: string;
}

type MessageChat = Pick<ChatStream, "model" | "promptTokens" | "cachedTokens">;
type Events = Generator<MessageEvent, void, undefined>;

/** Writes a chat in Anthropic's form. */
export class MessageWriter {
  readonly #id = makeId("msg_");
  readonly #chat: MessageChat;
  readonly #content: object[] = [];
  #block: OpenBlock | undefined;

  constructor(chat: MessageChat) {
    this.#chat = chat;
  }

  /** Sent with the first token, when the number of cached prompt tokens is known. */
  *begin(): Events {
    const { promptTokens, cachedTokens } = this.#chat;
    yield {
      type: "message_start",
      message: { ...this.#message(), usage: usageOf({ promptTokens, cachedTokens, generatedTokens: 0 }) },
    };
  }

  *add(event: ChatEvent): Events {
    switch (event.type) {
      case "text":
        if (event.text === "") return;
        yield* this.#open("text");
        yield this.#grow(event.text, { type: "text_delta", text: event.text });
        break;
      case "reasoning":
        yield* this.#open("thinking");
        yield this.#grow(event.text, { type: "thinking_delta", thinking: event.text });
        break;
      case "tool-call-start":
        yield* this.#close();
        yield* this.#open("tool_use", { id: event.id, name: event.name });
        break;
      case "tool-call-delta":
        if (this.#block?.kind === "tool_use")
          yield this.#grow(event.text, { type: "input_json_delta", partial_json: event.text });
        break;
      case "tool-call":
        yield* this.#close();
        break;
      case "finish":
        break;
      default:
        event satisfies never;
    }
  }

  *end({ choices: [choice], summary }: ChatResult): Events {
    yield* this.#close();
    yield {
      type: "message_delta",
      delta: { ...stopOf(choice), container: null, stop_details: null },
      usage: usageOf(summary),
    };
    yield { type: "message_stop" };
  }

  response({ choices: [choice], summary }: ChatResult): object {
    return { ...this.#message(), ...stopOf(choice), usage: usageOf(summary) };
  }

  #message(): object {
    return {
      id: this.#id,
      type: "message",
      role: "assistant",
      model: this.#chat.model.name,
      content: [...this.#content],
      stop_reason: null,
      stop_sequence: null,
      stop_details: null,
      container: null,
    };
  }

  *#open(kind: OpenBlock["kind"], call?: { readonly id: string; readonly name: string }): Events {
    if (this.#block?.kind === kind && call === undefined) return;
    yield* this.#close();
    this.#block = { kind, text: "", ...(call === undefined ? {} : { call }) };
    yield { type: "content_block_start", index: this.#content.length, content_block: blockOf(this.#block) };
  }

  *#close(): Events {
    const block = this.#block;
    if (block === undefined) return;
    const index = this.#content.length;
    // Clients send reasoning back with its signature; this server has none to check.
    if (block.kind === "thinking")
      yield { type: "content_block_delta", index, delta: { type: "signature_delta", signature: "" } };
    yield { type: "content_block_stop", index };
    this.#content.push(blockOf(block));
    this.#block = undefined;
  }

  #grow(text: string, delta: object): MessageEvent {
    if (this.#block !== undefined) this.#block.text += text;
    return { type: "content_block_delta", index: this.#content.length, delta };
  }
}

function blockOf({ kind, text, call }: OpenBlock): object {
  switch (kind) {
    case "text":
      return { type: "text", text };
    case "thinking":
      return { type: "thinking", thinking: text, signature: "" };
    case "tool_use":
      return { type: "tool_use", id: call?.id, name: call?.name, input: inputOf(text), caller: { type: "direct" } };
    default:
      return kind satisfies never;
  }
}

/** Parses arguments; truncated arguments become an empty object, as the stop reason shows. */
function inputOf(text: string): object {
  const value = parsedJson(text);
  return isPlainObject(value) ? value : {};
}

function stopOf({ reason, stop }: ChatEnding): {
  readonly stop_reason: string;
  readonly stop_sequence: string | null;
} {
  if (stop !== undefined) return { stop_reason: "stop_sequence", stop_sequence: stop };
  return { stop_reason: STOP_REASONS[reason], stop_sequence: null };
}

function usageOf({
  promptTokens,
  cachedTokens,
  generatedTokens,
}: Pick<CompletionSummary, "promptTokens" | "cachedTokens" | "generatedTokens">): object {
  return {
    input_tokens: promptTokens - cachedTokens,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: cachedTokens,
    output_tokens: generatedTokens,
  };
}
