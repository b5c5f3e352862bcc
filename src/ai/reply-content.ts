// A whole reply in the SDK's form: its content in the order in which it was generated, why it ended, what it used.

import type {
  LanguageModelV4Content,
  LanguageModelV4FinishReason,
  LanguageModelV4Usage,
  SharedV4ProviderMetadata,
} from "@ai-sdk/provider";
import type { Reply, ReplyEvent } from "../model/chat.js";
import type { Usage } from "../model/generation.js";
import { PROVIDER_NAME } from "./language-model-options.js";

/** Adds an event to the content of a reply; deltas of one block are joined. */
export function addContent(content: LanguageModelV4Content[], event: ReplyEvent): void {
  if (event.type === "tool-call") {
    content.push({ type: "tool-call", toolCallId: event.id, toolName: event.name, input: event.arguments });
    return;
  }
  if (event.type !== "text" && event.type !== "reasoning") return;
  const last = content.at(-1);
  if (last?.type === event.type) last.text += event.text;
  else content.push({ type: event.type, text: event.text });
}

/** What a reply reports beside its content. */
export interface ReplyEnd {
  readonly finishReason: LanguageModelV4FinishReason;
  readonly usage: LanguageModelV4Usage;
  readonly providerMetadata: SharedV4ProviderMetadata;
}

/** How a reply ended: reason, token counts, and what only this engine knows. */
export function replyEnd({ finishReason, usage, timings, seed, stop }: Reply<unknown>): ReplyEnd {
  return {
    finishReason: { unified: unifiedReason(finishReason), raw: finishReason },
    usage: sdkUsage(usage),
    providerMetadata: {
      [PROVIDER_NAME]: { seed, timings: { ...timings }, ...(stop === undefined ? {} : { stop }) },
    },
  };
}

/** The end of a reply that failed. */
export function failedEnd(code: string): Pick<ReplyEnd, "finishReason" | "usage"> {
  return {
    finishReason: { unified: "error", raw: code },
    usage: {
      inputTokens: { total: undefined, noCache: undefined, cacheRead: undefined, cacheWrite: undefined },
      outputTokens: { total: undefined, text: undefined, reasoning: undefined },
    },
  };
}

function unifiedReason(reason: Reply["finishReason"]): LanguageModelV4FinishReason["unified"] {
  switch (reason) {
    case "stop":
    case "length":
    case "tool-calls":
      return reason;
    case "timeout":
    case "abort":
      return "other";
    default:
      return reason satisfies never;
  }
}

function sdkUsage(usage: Usage): LanguageModelV4Usage {
  const { promptTokens, cachedTokens, completionTokens, reasoningTokens } = usage;
  return {
    inputTokens: {
      total: promptTokens,
      noCache: promptTokens - cachedTokens,
      cacheRead: cachedTokens,
      // Every prompt is kept as long as there is room; no part of it is written to a cache at a price of its own.
      cacheWrite: undefined,
    },
    outputTokens: { total: completionTokens, text: completionTokens - reasoningTokens, reasoning: reasoningTokens },
    raw: { ...usage },
  };
}
