// How models spell tool calls, one reader for each convention. Invariants: a call is given when all of it has come and is
// sound; what turns out to be none comes back as text, nothing lost; a reader stops where the call is known to be broken.
// The spellings are those of the model families' own published templates.

import type { DeltaSink } from "./delta-sink.js";
import { parseJsonCall } from "./json-call.js";
import { JsonScanner } from "./json-scanner.js";
import { MAX_CALL_CHARACTERS } from "./limits.js";
import type { ChatTool } from "./message.js";
import { Markers, type Reading, type TextCursor } from "./text-cursor.js";
import { typedArguments } from "./typed-arguments.js";

/**
 * Named after how they look; which one a model speaks its template tells. Known from: "tagged-json" Hermes and Qwen,
 * "tagged-keys" GLM, "bracketed" Mistral, "python-tag" Llama 3, "bare-json" is what any model can be asked for.
 */
export type CallConvention = "tagged-json" | "tagged-keys" | "bracketed" | "python-tag" | "bare-json";

export interface CallContext {
  readonly cursor: TextCursor;
  readonly sink: DeltaSink;
  readonly tools: ReadonlyMap<string, ChatTool>;
}

/** Reads the rest of an answer. */
type CallSyntax = (context: CallContext) => Reading<void>;

const NO_MARKERS = new Markers([]);
export const CALL_OPEN = "<tool_call>";
export const CALL_CLOSE = "</tool_call>";
export const MISTRAL_CALLS = "[TOOL_CALLS]";
export const PYTHON_TAG = "<|python_tag|>";
const MISTRAL_ARGUMENTS = "[ARGS]";
const MISTRAL_CALL_ID = "[CALL_ID]";
const KEY_OPEN = "<arg_key>";
const KEY_CLOSE = "</arg_key>";
const VALUE_OPEN = "<arg_value>";
const VALUE_CLOSE = "</arg_value>";
const FENCE = "```";

/** What a control token of the vocabulary may stand for, which is text to these readers all the same. */
export const CALL_MARKERS: Readonly<Record<CallConvention, readonly string[]>> = {
  "tagged-json": [CALL_OPEN, CALL_CLOSE],
  "tagged-keys": [CALL_OPEN, CALL_CLOSE, KEY_OPEN, KEY_CLOSE, VALUE_OPEN, VALUE_CLOSE],
  bracketed: [MISTRAL_CALLS, MISTRAL_ARGUMENTS, MISTRAL_CALL_ID],
  "python-tag": [PYTHON_TAG],
  "bare-json": [],
};

export const CALL_SYNTAX: Readonly<Record<CallConvention, CallSyntax>> = {
  "tagged-json": (context) => taggedCalls(context, readHermesCall),
  "tagged-keys": (context) => taggedCalls(context, readGlmCall),
  bracketed: (context) => markedCalls(context, MISTRAL_CALLS, readMistralCalls),
  *"python-tag"(context) {
    yield* readBareCalls(context);
    yield* markedCalls(context, PYTHON_TAG, readBareCalls);
  },
  *"bare-json"(context) {
    yield* readBareCalls(context);
    yield* plainText(context);
  },
};

/** A text without calls. */
export function* plainText({ cursor, sink }: CallContext): Reading<void> {
  yield* cursor.until(NO_MARKERS, (text) => sink.text(text));
}

/** Reads up to each marker as text, and what is behind it with `read`, which gives back as text what it cannot use. */
function* markedCalls(context: CallContext, marker: string, read: CallSyntax): Reading<void> {
  const { cursor, sink } = context;
  const markers = new Markers([marker]);
  for (;;) {
    const found = yield* cursor.until(markers, (text) => sink.text(text));
    if (found === undefined) return;
    // The marker is part of what comes back where no call follows; it has been read already.
    cursor.startRecord(marker);
    yield* read(context);
    sink.text(cursor.takeRecord());
  }
}

/** Calls between tags; the closing one may be missing. */
function taggedCalls(context: CallContext, readCall: (context: CallContext) => Reading<boolean>): Reading<void> {
  return markedCalls(context, CALL_OPEN, function* tagged({ cursor }): Reading<void> {
    yield* cursor.space();
    if (!(yield* readCall(context))) return;
    cursor.startRecord();
    yield* cursor.space();
    if (yield* cursor.literal(CALL_CLOSE)) cursor.takeRecord();
  });
}

/** `{"name": …, "arguments": {…}}` */
function* readHermesCall(context: CallContext): Reading<boolean> {
  return yield* readJsonCall(context, () => true);
}

/** `name⏎<arg_key>a</arg_key>⏎<arg_value>1</arg_value>⏎…`, or Hermes' form, which its models write as well. */
function* readGlmCall(context: CallContext): Reading<boolean> {
  const { cursor, sink, tools } = context;
  if ((yield* cursor.peek()) === "{") return yield* readHermesCall(context);
  let name = "";
  yield* cursor.scan(nameEnd, (text) => (name += text));
  let marker = yield* nextTag(cursor);
  const given: (readonly [key: string, value: string])[] = [];
  while (marker === KEY_OPEN) {
    const key = yield* readElement(cursor, KEY_CLOSES);
    yield* cursor.space();
    const value = key !== undefined && (yield* cursor.literal(VALUE_OPEN)) ? yield* readElement(cursor, VALUE_CLOSES) : undefined;
    if (key === undefined || value === undefined || cursor.recordedCharacters > MAX_CALL_CHARACTERS) return false;
    given.push([key.trim(), value]);
    yield* cursor.space();
    marker = yield* nextTag(cursor);
  }
  name = name.trim();
  if (marker === undefined || !isFunctionName(name)) return false;
  cursor.takeRecord();
  giveCall(sink, name, JSON.stringify(typedArguments(given, tools.get(name))));
  return true;
}

function* nextTag(cursor: TextCursor): Reading<string | undefined> {
  for (const tag of [KEY_OPEN, CALL_CLOSE]) if (yield* cursor.literal(tag)) return tag;
  return undefined;
}

const KEY_CLOSES = new Markers([KEY_CLOSE]);
const VALUE_CLOSES = new Markers([VALUE_CLOSE]);

function* readElement(cursor: TextCursor, close: Markers): Reading<string | undefined> {
  let all = "";
  return (yield* cursor.until(close, (text) => (all += text))) === undefined ? undefined : all;
}

/** `[{"name": …, "arguments": …, "id": …}, …]`, or `name[ARGS]{…}` as newer models have it. */
function* readMistralCalls(context: CallContext): Reading<void> {
  const { cursor } = context;
  yield* cursor.space();
  const next = yield* cursor.peek();
  if (next !== "[") return void (next === "{" ? yield* readHermesCall(context) : yield* readNamedCall(context));
  yield* cursor.literal("[");
  for (;;) {
    yield* cursor.space();
    if (!(yield* readHermesCall(context))) return;
    cursor.startRecord();
    yield* cursor.space();
    if (yield* cursor.literal("]")) return void cursor.takeRecord();
    if (!(yield* cursor.literal(","))) return;
  }
}

function* readNamedCall({ cursor, sink }: CallContext): Reading<boolean> {
  let head = "";
  yield* cursor.scan(nameEnd, (text) => (head += text));
  let id: string | undefined;
  if (yield* cursor.literal(MISTRAL_CALL_ID)) {
    id = "";
    yield* cursor.scan(nameEnd, (text) => (id += text));
  }
  yield* cursor.literal(MISTRAL_ARGUMENTS);
  yield* cursor.space();
  const name = head.trim();
  if (!isFunctionName(name) || (yield* cursor.peek()) !== "{") return false;
  const json = yield* readJson(cursor);
  if (json === undefined || parseJson(json.text) === undefined) return false;
  cursor.takeRecord();
  giveCall(sink, name, json.text, id);
  return true;
}

const NAME_CHARACTER = /[\w.\-\s]/;

function nameEnd(text: string, from: number): number | undefined {
  for (let at = from; at < text.length; at++) if (!NAME_CHARACTER.test(text[at] as string)) return at;
  return undefined;
}

/**
 * Calls as nothing but JSON, one behind the other, perhaps with semicolons or inside a code fence. Many an answer is JSON,
 * so only those that name a tool are calls.
 */
function* readBareCalls(context: CallContext): Reading<void> {
  const { cursor, sink, tools } = context;
  if (cursor.recordedCharacters === 0) cursor.startRecord();
  yield* cursor.space();
  const fenced = yield* cursor.literal(FENCE);
  if (fenced) {
    yield* cursor.literal("json");
    yield* cursor.space();
  }
  while ((yield* cursor.peek()) === "{" && (yield* readJsonCall(context, (name) => tools.has(name)))) {
    cursor.startRecord();
    yield* cursor.space();
    if (fenced && (yield* cursor.literal(FENCE))) return void cursor.takeRecord();
    if (!(yield* cursor.literal(";"))) yield* cursor.literal(",");
    yield* cursor.space();
  }
  sink.text(cursor.takeRecord());
}

/** Reads one object; when it is a call, what was recorded belongs to it and is gone. */
function* readJsonCall({ cursor, sink }: CallContext, known: (name: string) => boolean): Reading<boolean> {
  if ((yield* cursor.peek()) !== "{") return false;
  const json = yield* readJson(cursor);
  const call = json === undefined ? undefined : parseJsonCall(json.text, json.scanner);
  if (call === undefined || !isFunctionName(call.name) || !known(call.name)) return false;
  cursor.takeRecord();
  giveCall(sink, call.name, call.arguments, call.id);
  return true;
}

function* readJson(cursor: TextCursor): Reading<{ readonly text: string; readonly scanner: JsonScanner } | undefined> {
  const scanner = new JsonScanner();
  let text = "";
  yield* cursor.scan(scanner.scan, (part) => (text += part));
  return scanner.state === "whole" ? { text, scanner } : undefined;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

/** As OpenAI allows them, and with dots, which some tools have. */
function isFunctionName(name: string): boolean {
  return /^[\w.-]{1,128}$/.test(name);
}

function giveCall(sink: DeltaSink, name: string, argumentsText: string, id?: string): void {
  const index = id === undefined ? sink.startCall(name) : sink.startCall(name, id);
  sink.callArguments(index, argumentsText);
  sink.endCall(index);
}
