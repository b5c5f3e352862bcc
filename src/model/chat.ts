// A chat as its caller sees it: events to iterate, a reply to await, or both. Invariants: nothing runs before the first
// event or the result is requested; leaving the iteration cancels the chat and frees its resources; the result settles
// however the chat ends.

import type { ChatMessage, ChatToolCall } from "../chat/message.js";
import type { ChatEvent, ChatFinishReason, ChatResult } from "../completion/chat-event.js";
import type { ChatStream } from "../completion/chat-stream.js";
import { ChatError } from "../errors.js";
import { parsedJson } from "../plain-object.js";
import { type GenerationTimings, timingsOf, type Usage } from "./generation.js";
import { parseReply, type ReplySchema } from "./response-schema.js";

/** A tool call that the model asks the caller to run. */
export interface ToolCall extends ChatToolCall {
  /** The parsed arguments; undefined if the model did not write valid JSON. */
  readonly input: unknown;
}

/**
 * One event of a reply: text, reasoning, or a tool call. A call starts, grows by deltas of its arguments, and is given as
 * a whole when it is complete; one that a limit cuts off has no "tool-call" event.
 */
export type ReplyEvent =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "reasoning"; readonly text: string }
  | { readonly type: "tool-call-start"; readonly id: string; readonly name: string }
  | { readonly type: "tool-call-delta"; readonly id: string; readonly text: string }
  | ({ readonly type: "tool-call" } & ToolCall);

/** The complete reply of a chat. */
export class Reply<Value = undefined> {
  readonly text: string;
  readonly reasoning: string;
  readonly toolCalls: readonly ToolCall[];
  readonly finishReason: ChatFinishReason;
  /** The stop string that ended it, if one did. */
  readonly stop: string | undefined;
  readonly usage: Usage;
  readonly timings: GenerationTimings;
  /** The same seed, messages and options give the same reply again. */
  readonly seed: number;
  readonly #value: { readonly value: Value } | undefined;

  constructor({ choices, usage, summary }: ChatResult, value: { readonly value: Value } | undefined) {
    const [choice] = choices;
    this.text = choice.text;
    this.reasoning = choice.reasoning;
    this.toolCalls = choice.toolCalls.map(withInput);
    this.finishReason = choice.reason;
    this.stop = choice.stop;
    this.usage = usage;
    this.timings = timingsOf(summary);
    this.seed = summary.seed;
    this.#value = value;
  }

  /** The value of the requested schema; throws if the reply was cut off or calls tools instead. */
  get object(): Value {
    if (this.#value !== undefined) return this.#value.value;
    throw new ChatError(
      "CHAT_SCHEMA",
      `[object] there is no complete object: the reply ended with "${this.finishReason}"; pass a schema, and check finishReason first`,
      { details: { finishReason: this.finishReason, text: this.text } },
    );
  }

  /** The reply as a message, for continuing the conversation. */
  get message(): ChatMessage {
    return {
      role: "assistant",
      content: this.text,
      ...(this.reasoning === "" ? {} : { reasoning: this.reasoning }),
      ...(this.toolCalls.length === 0
        ? {}
        : { toolCalls: this.toolCalls.map(({ id, name, arguments: text }) => ({ id, name, arguments: text })) }),
    };
  }
}

/**
 * Notified when a chat starts, and when it has ended: with its reply, or without one if it failed. Part of the
 * internals.
 */
export interface ChatFollower<Value> {
  begins(): void;
  ends(reply: Reply<Value> | undefined): void;
}

/** How a chat is started. Part of the internals. */
export interface ChatStart<Value> {
  /** Starts the chat; called once. */
  readonly begin: () => Promise<ChatStream>;
  /** Throws if the model has been disposed: then that is why the chat failed, whatever was missed first. */
  readonly assertAlive: () => void;
  readonly schema: ReplySchema<Value> | undefined;
}

/** A running chat: iterate its events, await its result, or do both. */
export class Chat<Value = undefined> implements AsyncIterable<ReplyEvent>, PromiseLike<Reply<Value>> {
  readonly #start: ChatStart<Value>;
  #stream: Promise<ChatStream> | undefined;
  #result: Promise<Reply<Value>> | undefined;
  #isIterated = false;
  #follower: ChatFollower<Value> | undefined;

  constructor(start: ChatStart<Value>) {
    this.#start = start;
  }

  /** Used by sessions to follow the chat. Part of the internals. */
  followedBy(follower: ChatFollower<Value>): this {
    this.#follower = follower;
    return this;
  }

  /**
   * The whole reply; reading this property starts the chat, and reading it again returns the same promise. Rejects if
   * the chat fails.
   */
  get result(): Promise<Reply<Value>> {
    if (this.#result === undefined) {
      this.#result = this.#reply();
      // A reader that iterates gets the failure there; a result that is not awaited must not end the process.
      this.#result.catch(() => {});
    }
    return this.#result;
  }

  /** Makes `await chat` the same as `await chat.result`. */
  // oxlint-disable-next-line unicorn/no-thenable -- it is meant to be awaited
  then<Fulfilled = Reply<Value>, Rejected = never>(
    fulfilled?: ((reply: Reply<Value>) => Fulfilled | PromiseLike<Fulfilled>) | null,
    rejected?: ((reason: unknown) => Rejected | PromiseLike<Rejected>) | null,
  ): Promise<Fulfilled | Rejected> {
    return this.result.then(fulfilled, rejected);
  }

  /** Iterates over the events; possible once. */
  [Symbol.asyncIterator](): AsyncGenerator<ReplyEvent, void, undefined> {
    if (this.#isIterated) throw new TypeError("a chat can be iterated only once; `await chat.result` has its reply");
    this.#isIterated = true;
    return this.#events();
  }

  async *#events(): AsyncGenerator<ReplyEvent, void, undefined> {
    // Events are read once: if the result was requested first, they arrive at the end, as a whole.
    if (this.#result !== undefined) return yield* wholeEvents(await this.#result);
    const stream = await this.#begin();
    const callIds: string[] = [];
    try {
      for await (const event of stream) {
        if (event.type === "tool-call-start") callIds[event.index] = event.id;
        const shown = replyEvent(event, callIds);
        if (shown !== undefined) yield shown;
      }
    } catch (error) {
      this.#start.assertAlive();
      throw error;
    } finally {
      // Whether or not the iteration was left early, the reply is what was generated by then.
      void this.result;
    }
    // A reply that fails the schema's own validation fails the chat.
    await this.result;
  }

  async #reply(): Promise<Reply<Value>> {
    try {
      const reply = await this.#replyOf(await this.#begin());
      this.#follower?.ends(reply);
      return reply;
    } catch (error) {
      this.#follower?.ends(undefined);
      this.#start.assertAlive();
      throw error;
    }
  }

  async #replyOf(stream: ChatStream): Promise<Reply<Value>> {
    const result = await stream.result;
    const { schema } = this.#start;
    const [{ reason, text, toolCalls }] = result.choices;
    if (schema === undefined || reason !== "stop" || toolCalls.length > 0) return new Reply(result, undefined);
    return new Reply(result, { value: await parseReply(schema, text) });
  }

  #begin(): Promise<ChatStream> {
    if (this.#stream === undefined) {
      this.#follower?.begins();
      this.#stream = this.#start.begin();
    }
    return this.#stream;
  }
}

function* wholeEvents({ reasoning, text, toolCalls }: Reply<unknown>): Generator<ReplyEvent, void, undefined> {
  if (reasoning !== "") yield { type: "reasoning", text: reasoning };
  if (text !== "") yield { type: "text", text };
  for (const call of toolCalls) yield { type: "tool-call", ...call };
}

function withInput(call: ChatToolCall): ToolCall {
  return { ...call, input: parsedJson(call.arguments) };
}

/** An event as callers of the library see it; `callIds` has the ids of the calls that have started. */
function replyEvent(event: ChatEvent, callIds: readonly string[]): ReplyEvent | undefined {
  switch (event.type) {
    case "text":
      return event.text === "" ? undefined : { type: "text", text: event.text };
    case "reasoning":
      return { type: "reasoning", text: event.text };
    case "tool-call": {
      const { id, name, arguments: text } = event;
      return { type: "tool-call", ...withInput({ id, name, arguments: text }) };
    }
    case "tool-call-start":
      return { type: "tool-call-start", id: event.id, name: event.name };
    case "tool-call-delta":
      return { type: "tool-call-delta", id: callIds[event.index], text: event.text };
    case "finish":
      return undefined;
    default:
      return event satisfies never;
  }
}
