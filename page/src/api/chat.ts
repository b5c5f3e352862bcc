// POST /v1/chat/completions, streamed: messages in, deltas of text, reasoning and tool calls out.

import { ApiError, readable, request } from "./client";
import { readEvents } from "./event-stream";

/** A message as the API takes it. */
export interface ApiMessage {
  readonly role: "system" | "user" | "assistant" | "tool";
  readonly content: string;
  readonly reasoning_content?: string;
  readonly tool_calls?: readonly {
    readonly id: string;
    readonly type: "function";
    readonly function: { readonly name: string; readonly arguments: string };
  }[];
  readonly tool_call_id?: string;
}

/** Fields of a request besides its messages; absent ones are the server's or the model's defaults. */
export interface ChatFields {
  readonly model: string;
  readonly messages: readonly ApiMessage[];
  readonly tools?: readonly object[];
  readonly temperature?: number;
  readonly top_p?: number;
  readonly top_k?: number;
  readonly min_p?: number;
  readonly repetition_penalty?: number;
  readonly max_tokens?: number;
  readonly seed?: number;
  readonly reasoning_effort?: string;
}

/** What a stream adds. */
export type ChatDelta =
  | { readonly kind: "text" | "reasoning"; readonly text: string }
  | {
      readonly kind: "tool-call";
      readonly index: number;
      readonly id?: string;
      readonly name?: string;
      readonly text: string;
    }
  | { readonly kind: "finish"; readonly reason: string }
  | { readonly kind: "usage"; readonly usage: Usage };

/** Token counts of an answer. */
export interface Usage {
  readonly promptTokens: number;
  /** Prompt tokens that were found in the prefix cache. */
  readonly cachedTokens: number;
  readonly completionTokens: number;
}

interface Chunk {
  readonly error?: { readonly message?: string; readonly code?: string };
  readonly choices?: readonly {
    readonly delta: {
      readonly content?: string;
      readonly reasoning_content?: string;
      readonly tool_calls?: readonly {
        readonly index: number;
        readonly id?: string;
        readonly function?: { readonly name?: string; readonly arguments?: string };
      }[];
    };
    readonly finish_reason?: string | null;
  }[];
  readonly usage?: {
    readonly prompt_tokens: number;
    readonly completion_tokens: number;
    readonly prompt_tokens_details?: { readonly cached_tokens?: number };
  } | null;
}

/** Streams a reply; aborting the signal makes the server cancel it. */
export async function* streamChat(fields: ChatFields, signal: AbortSignal): AsyncGenerator<ChatDelta, void, undefined> {
  const response = await request("/v1/chat/completions", {
    body: { ...fields, stream: true, stream_options: { include_usage: true } },
    signal,
  });
  if (response.body === null) throw new ApiError("The answer has no body.", response.status, "");
  for await (const { data } of readEvents(response.body)) {
    if (data === "[DONE]") return;
    yield* deltasOf(JSON.parse(data) as Chunk);
  }
}

function* deltasOf({ error, choices = [], usage }: Chunk): Generator<ChatDelta, void, undefined> {
  if (error !== undefined) throw new ApiError(readable(error.message ?? "The answer failed."), 0, error.code ?? "");
  for (const { delta, finish_reason: reason } of choices) {
    if (delta.reasoning_content) yield { kind: "reasoning", text: delta.reasoning_content };
    if (delta.content) yield { kind: "text", text: delta.content };
    for (const { index, id, function: called } of delta.tool_calls ?? []) {
      yield {
        kind: "tool-call",
        index,
        ...(id === undefined ? {} : { id }),
        ...(called?.name === undefined ? {} : { name: called.name }),
        text: called?.arguments ?? "",
      };
    }
    if (typeof reason === "string") yield { kind: "finish", reason };
  }
  if (usage)
    yield {
      kind: "usage",
      usage: {
        promptTokens: usage.prompt_tokens,
        cachedTokens: usage.prompt_tokens_details?.cached_tokens ?? 0,
        completionTokens: usage.completion_tokens,
      },
    };
}
