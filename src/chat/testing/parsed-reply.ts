// A reply parsed and its deltas joined, for the tests of all conventions.

import type { ChatDelta, ChatTool } from "../message.js";
import { ChatOutputParser, type ChatOutputParserOptions } from "../output/output-parser.js";

const weather: ChatTool = {
  name: "get_weather",
  parameters: {
    type: "object",
    properties: {
      city: { type: "string" },
      days: { type: "integer" },
      units: { enum: ["C", "F"] },
      filter: { type: "object" },
    },
  },
};
const search: ChatTool = { name: "search", parameters: { type: "object", properties: { query: { type: "string" } } } };
/** The tools that the parsed replies may call. */
export const TOOLS: readonly ChatTool[] = [weather, search];
const THINK = { open: "<think>", close: "</think>" };

/** A parsed reply, joined. */
export interface ParsedAnswer {
  readonly text: string;
  readonly reasoning: string;
  readonly calls: readonly {
    readonly id: string;
    readonly name: string;
    readonly arguments: string;
    readonly ended: boolean;
  }[];
  /** The kinds of deltas in order, without repeats. */
  readonly order: string;
}

/** Joins the deltas of a reply. */
export function joined(deltas: readonly ChatDelta[]): ParsedAnswer {
  let text = "";
  let reasoning = "";
  const calls: { id: string; name: string; arguments: string; ended: boolean }[] = [];
  const order: string[] = [];
  for (const delta of deltas) {
    if (order.at(-1) !== delta.kind) order.push(delta.kind);
    if (delta.kind === "text") text += delta.text;
    else if (delta.kind === "reasoning") reasoning += delta.text;
    else if (delta.kind === "call")
      calls[delta.index] = { id: delta.id, name: delta.name, arguments: "", ended: false };
    else if (delta.kind === "arguments") (calls[delta.index] as (typeof calls)[number]).arguments += delta.text;
    else (calls[delta.index] as (typeof calls)[number]).ended = true;
  }
  return { text, reasoning, calls, order: order.join(" ") };
}

/** Parses a reply in chunks; calls get the ids id0, id1 and so on. */
export function parsed(chunks: readonly string[], options: Partial<ChatOutputParserOptions> = {}): ParsedAnswer {
  let ids = 0;
  const parser = new ChatOutputParser({
    convention: "tagged-json",
    tools: TOOLS,
    reasoning: THINK,
    reasoningOpen: false,
    makeId: () => `id${ids++}`,
    ...options,
  });
  const deltas = chunks.flatMap((chunk) => parser.push(chunk));
  return joined([...deltas, ...parser.end()]);
}

/** The expected form of a complete call. */
export function calling(name: string, value: unknown, id = "id0"): ParsedAnswer["calls"][number] {
  return { id, name, arguments: typeof value === "string" ? value : JSON.stringify(value), ended: true };
}

/** A text in chunks of these sizes. */
export function chunksOf(text: string, sizes: Iterator<number>): readonly string[] {
  const chunks: string[] = [];
  for (let at = 0; at < text.length;) {
    const size = sizes.next().value as number;
    chunks.push(text.slice(at, at + size));
    at += size;
  }
  return chunks;
}
