// The one handler of all chat APIs, whole or streamed. An API differs in how its request becomes a chat and in the writer
// that turns the chat's events into its response. Invariant: a stream begins with the first event of the chat, so that a
// chat that fails earlier has a status of its own.

import type { ChatEvent, ChatResult } from "../../completion/chat-event.js";
import type { ChatRequest } from "../../completion/chat-request.js";
import type { ChatStream } from "../../completion/chat-stream.js";
import type { StreamFraming } from "../http/event-stream.js";
import type { RequestError } from "../http/request-error.js";
import {
  acquireModel,
  type Exchange,
  failStream,
  openEventStream,
  sendAll,
  type ServerContext,
  type StreamEvent,
} from "./route-context.js";

/** Writes a chat in an API's form, both as events and as one response. */
export interface ChatWriter {
  begin(): Iterable<StreamEvent>;
  add(event: ChatEvent): Iterable<StreamEvent>;
  end(result: ChatResult): Iterable<StreamEvent>;
  /** The whole response, after the end. */
  response(result: ChatResult): object;
}

/** The fields that every chat API has under the same name. */
interface ChatBody {
  readonly model?: string | undefined;
  readonly stream?: boolean | undefined;
}

/** What distinguishes one chat API from another. */
interface ChatApi<Body extends ChatBody, Writer extends ChatWriter> {
  readonly chatRequest: (exchange: Exchange<Body>) => ChatRequest;
  /** `loadMs` is the time that the request waited for its model. */
  readonly createWriter: (chat: ChatStream, exchange: Exchange<Body>, loadMs: number) => Writer;
  /** The last event of a stream that fails; there is no writer if the chat had not begun. */
  readonly failure: (error: RequestError, exchange: Exchange<Body>, writer: Writer | undefined) => StreamEvent;
  /** Whether a request that does not say so is streamed; false by default. */
  readonly streamsByDefault?: boolean;
  /** How events are delimited; as server-sent events by default. */
  readonly framing?: StreamFraming;
  /** Data that follows the last event. */
  readonly lastData?: string;
}

/** Answers a chat request. */
export async function handleChat<Body extends ChatBody, Writer extends ChatWriter>(
  context: ServerContext,
  exchange: Exchange<Body>,
  api: ChatApi<Body, Writer>,
): Promise<object | undefined> {
  const { limits, logPrompts } = context.options;
  const { body, request, inFlight } = exchange;
  const chatRequest = api.chatRequest(exchange);
  const { streamsByDefault = false, framing } = api;
  using output = (body.stream ?? streamsByDefault) ? openEventStream(context, exchange, framing) : undefined;
  let writer: Writer | undefined;
  try {
    const askedMs = performance.now();
    using lease = await acquireModel(context, exchange, body.model);
    const loadMs = performance.now() - askedMs;
    await using chat = context.chats.start(lease.model, chatRequest, {
      signal: inFlight.signal,
      timeLimitMs: limits.timeLimitMs,
      keepsLogprobs: output === undefined,
      onPrompt: logPrompts ? (prompt) => request.log.info({ prompt }, "prompt") : undefined,
    });
    for await (const event of chat) {
      if (writer === undefined) {
        writer = api.createWriter(chat, exchange, loadMs);
        await sendAll(output, writer.begin());
      }
      await sendAll(output, writer.add(event));
    }
    if (writer === undefined) throw new RangeError("a chat ended without an event");
    const result = await chat.result;
    await sendAll(output, writer.end(result));
    if (output === undefined) return writer.response(result);
    if (api.lastData !== undefined) await output.sendText(api.lastData);
    return undefined;
  } catch (thrown) {
    return failStream(output, exchange, thrown, (error) => api.failure(error, exchange, writer));
  }
}
