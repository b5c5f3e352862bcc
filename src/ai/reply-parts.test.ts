// Events of a reply as stream parts and as content: blocks that start and end, and calls that are cut off.

import type { LanguageModelV4Content } from "@ai-sdk/provider";
import { expect, it } from "vitest";
import type { ReplyEvent } from "../model/chat.js";
import { addContent } from "./reply-content.js";
import { ReplyParts } from "./reply-parts.js";

const CALL = { id: "c1", name: "weather", arguments: '{"city":"Oslo"}', input: { city: "Oslo" } };
const EVENTS: readonly ReplyEvent[] = [
  { type: "reasoning", text: "I " },
  { type: "reasoning", text: "look." },
  { type: "text", text: "Let me see." },
  { type: "tool-call-start", id: "c1", name: "weather" },
  { type: "tool-call-delta", id: "c1", text: '{"city":' },
  { type: "tool-call-delta", id: "c1", text: '"Oslo"}' },
  { type: "tool-call", ...CALL },
  { type: "text", text: "Wait" },
  { type: "text", text: "." },
];

function parts(events: readonly ReplyEvent[]) {
  const reader = new ReplyParts();
  return [...events.flatMap((event) => [...reader.read(event)]), ...reader.close(), ...reader.close()];
}

it("starts and ends each block once, under an id of its own", () => {
  expect(parts(EVENTS)).toEqual([
    { type: "reasoning-start", id: "reasoning-0" },
    { type: "reasoning-delta", id: "reasoning-0", delta: "I " },
    { type: "reasoning-delta", id: "reasoning-0", delta: "look." },
    { type: "reasoning-end", id: "reasoning-0" },
    { type: "text-start", id: "text-1" },
    { type: "text-delta", id: "text-1", delta: "Let me see." },
    { type: "text-end", id: "text-1" },
    { type: "tool-input-start", id: "c1", toolName: "weather" },
    { type: "tool-input-delta", id: "c1", delta: '{"city":' },
    { type: "tool-input-delta", id: "c1", delta: '"Oslo"}' },
    { type: "tool-input-end", id: "c1" },
    { type: "tool-call", toolCallId: "c1", toolName: "weather", input: '{"city":"Oslo"}' },
    { type: "text-start", id: "text-2" },
    { type: "text-delta", id: "text-2", delta: "Wait" },
    { type: "text-delta", id: "text-2", delta: "." },
    { type: "text-end", id: "text-2" },
  ]);
});

it("ends the input of a call that was cut off, without the call", () => {
  expect(parts(EVENTS.slice(3, 5)).map(({ type }) => type)).toEqual([
    "tool-input-start",
    "tool-input-delta",
    "tool-input-end",
  ]);
});

it("as content, keeps the order and joins deltas", () => {
  const content: LanguageModelV4Content[] = [];
  for (const event of EVENTS) addContent(content, event);
  expect(content).toEqual([
    { type: "reasoning", text: "I look." },
    { type: "text", text: "Let me see." },
    { type: "tool-call", toolCallId: "c1", toolName: "weather", input: '{"city":"Oslo"}' },
    { type: "text", text: "Wait." },
  ]);
});
