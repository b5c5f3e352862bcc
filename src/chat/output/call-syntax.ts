// The tool-call syntax of models, one reader for each convention. Invariants: a call is reported when it is complete
// and valid; text that turns out to be no call is reported as text, without loss; a reader stops as soon as a call is
// known to be invalid. The syntaxes are those of the model families' published templates.

import { parsedJson } from "../../plain-object.js";
import { CALL_CLOSE, CALL_OPEN, type CallContext, giveCall, isFunctionName, readName } from "./call-context.js";
import { parseJsonCall } from "./json-call.js";
import { JsonScanner } from "./json-scanner.js";
import { FUNCTION_OPEN, KEY_MARKS, readFunctionCall, readKeyedCall } from "./keyed-calls.js";
import { Markers, type Reading, type TextCursor } from "./text-cursor.js";

/**
 * Conventions for tool calls, named after their look; a model's template shows which one it uses. "tagged-json" is that
 * of Hermes and Qwen, "tagged-keys" GLM, "tagged-parameters" Qwen3-Coder, "bracketed" Mistral, "python-tag" Llama 3;
 * "bare-json" works with any model.
 */
export type CallConvention =
  | "tagged-json"
  | "tagged-keys"
  | "tagged-parameters"
  | "bracketed"
  | "python-tag"
  | "bare-json";

/** Reads the rest of a reply. */
type CallSyntax = (context: CallContext) => Reading<void>;
/** Reads and reports one call; false if there is none. */
type CallReader = (context: CallContext) => Reading<boolean>;

const NO_MARKERS = new Markers([]);
/** Starts the tool calls of Mistral's models. */
export const MISTRAL_CALLS = "[TOOL_CALLS]";
/** Starts the tool calls of Llama 3. */
export const PYTHON_TAG = "<|python_tag|>";
const MISTRAL_ARGUMENTS = "[ARGS]";
const MISTRAL_CALL_ID = "[CALL_ID]";
const FENCE = "```";

/** Marks that may be control tokens of the vocabulary; the readers need their text. */
export const CALL_MARKERS: Readonly<Record<CallConvention, readonly string[]>> = {
  "tagged-json": [CALL_OPEN, CALL_CLOSE],
  "tagged-keys": [CALL_OPEN, CALL_CLOSE, ...KEY_MARKS],
  "tagged-parameters": [CALL_OPEN, CALL_CLOSE],
  bracketed: [MISTRAL_CALLS, MISTRAL_ARGUMENTS, MISTRAL_CALL_ID],
  "python-tag": [PYTHON_TAG],
  "bare-json": [],
};

/** The reader of each convention. */
export const CALL_SYNTAX: Readonly<Record<CallConvention, CallSyntax>> = {
  "tagged-json": (context) => markedCalls(context, { [CALL_OPEN]: tagged(readHermesCall) }),
  "tagged-keys": (context) => markedCalls(context, { [CALL_OPEN]: tagged(orHermes(readKeyedCall)) }),
  // These models sometimes omit the outer tag; the name then has to be that of a tool.
  "tagged-parameters": (context) =>
    markedCalls(context, {
      [CALL_OPEN]: tagged(orHermes(readTaggedFunction)),
      [FUNCTION_OPEN]: tagged((inner) => readFunctionCall(inner, (name) => inner.tools.has(name))),
    }),
  bracketed: (context) => markedCalls(context, { [MISTRAL_CALLS]: readMistralCalls }),
  *"python-tag"(context) {
    yield* readBareCalls(context);
    yield* markedCalls(context, { [PYTHON_TAG]: readBareCalls });
  },
  *"bare-json"(context) {
    yield* readBareCalls(context);
    yield* plainText(context);
  },
};

/** Reads a text without calls. */
export function* plainText({ cursor, sink }: CallContext): Reading<void> {
  yield* cursor.until(NO_MARKERS, (text) => sink.text(text));
}

/** Reads text up to each marker, and what follows with the marker's reader, which leaves what it cannot use. */
function* markedCalls(context: CallContext, readers: Readonly<Record<string, CallSyntax>>): Reading<void> {
  const { cursor, sink } = context;
  const markers = new Markers(Object.keys(readers));
  for (;;) {
    const marker = yield* cursor.until(markers, (text) => sink.text(text));
    if (marker === undefined) return;
    // The marker, which has been read already, is part of the text if no call follows.
    cursor.startRecord(marker);
    yield* (readers[marker] as CallSyntax)(context);
    sink.text(cursor.takeRecord());
  }
}

/** Reads a call behind an opening tag; the closing tag may be missing. */
function tagged(readCall: CallReader): CallSyntax {
  return function* readTagged(context): Reading<void> {
    const { cursor } = context;
    yield* cursor.space();
    if (!(yield* readCall(context))) return;
    cursor.startRecord();
    yield* cursor.space();
    if (yield* cursor.literal(CALL_CLOSE)) cursor.takeRecord();
  };
}

/** Models with a convention of their own also write Hermes' calls. */
function orHermes(readCall: CallReader): CallReader {
  return function* readEither(context): Reading<boolean> {
    return (yield* context.cursor.peek()) === "{" ? yield* readHermesCall(context) : yield* readCall(context);
  };
}

function* readTaggedFunction(context: CallContext): Reading<boolean> {
  return (yield* context.cursor.literal(FUNCTION_OPEN)) && (yield* readFunctionCall(context, isFunctionName));
}

/** Reads `{"name": …, "arguments": {…}}`. */
function* readHermesCall(context: CallContext): Reading<boolean> {
  return yield* readJsonCall(context, () => true);
}

/** Reads `[{"name": …, "arguments": …, "id": …}, …]`, or `name[ARGS]{…}` of newer models. */
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

function* readNamedCall(context: CallContext): Reading<boolean> {
  const { cursor } = context;
  const name = yield* readName(cursor);
  const id = (yield* cursor.literal(MISTRAL_CALL_ID)) ? yield* readName(cursor) : undefined;
  yield* cursor.literal(MISTRAL_ARGUMENTS);
  yield* cursor.space();
  if (!isFunctionName(name) || (yield* cursor.peek()) !== "{") return false;
  const json = yield* readJson(cursor);
  if (json === undefined || parsedJson(json.text) === undefined) return false;
  giveCall(context, name, json.text, id);
  return true;
}

/**
 * Reads calls that are plain JSON, one after another, perhaps with semicolons or inside a code fence. Replies are often
 * JSON, so only objects that name a tool are calls.
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

/** Reads one object, and reports it if it is a call. */
function* readJsonCall(context: CallContext, known: (name: string) => boolean): Reading<boolean> {
  const { cursor } = context;
  if ((yield* cursor.peek()) !== "{") return false;
  const json = yield* readJson(cursor);
  const call = json === undefined ? undefined : parseJsonCall(json.text, json.scanner);
  if (call === undefined || !isFunctionName(call.name) || !known(call.name)) return false;
  giveCall(context, call.name, call.arguments, call.id);
  return true;
}

function* readJson(cursor: TextCursor): Reading<{ readonly text: string; readonly scanner: JsonScanner } | undefined> {
  const scanner = new JsonScanner();
  let text = "";
  yield* cursor.scan(scanner.scan, (part) => (text += part));
  return scanner.state === "whole" ? { text, scanner } : undefined;
}
