// Reads tool calls that are JSON objects: Hermes' `{"name": …, "arguments": …}`, lists of them, and objects without any
// marks around them.

import { type CallContext, type CallReader, type CallSyntax, giveCall, isFunctionName } from "./call-context.js";
import { type JsonCall, parseJsonCall } from "./json-call.js";
import { JsonScanner } from "./json-scanner.js";
import { parsedJson } from "../../plain-object.js";
import { skipMark } from "./marked-calls.js";
import type { Reading, TextCursor } from "./text-cursor.js";

/** The call in a scanned JSON object; undefined if it is none. */
type ParseCall = (text: string, scanner: JsonScanner) => JsonCall | undefined;

const FENCE = "```";

/** Reads `{"name": …, "arguments": {…}}`. */
export function* readHermesCall(context: CallContext): Reading<boolean> {
  return yield* readJsonCall(context, () => true);
}

/** Models with a convention of their own also write Hermes' calls. */
export function orHermes(readCall: CallReader): CallReader {
  return function* readEither(context): Reading<boolean> {
    return (yield* context.cursor.peek()) === "{" ? yield* readHermesCall(context) : yield* readCall(context);
  };
}

/** Reads one object, and reports it if it is a call. */
export function* readJsonCall(
  context: CallContext,
  known: (name: string) => boolean,
  parse: ParseCall = parseJsonCall,
): Reading<boolean> {
  const json = yield* readObject(context.cursor);
  const call = json === undefined ? undefined : parse(json.text, json.scanner);
  if (call === undefined || !isFunctionName(call.name) || !known(call.name)) return false;
  giveCall(context, call.name, call.arguments, call.id);
  return true;
}

/** Reads a JSON object; undefined if none comes next. */
function* readObject(
  cursor: TextCursor,
): Reading<{ readonly text: string; readonly scanner: JsonScanner } | undefined> {
  if ((yield* cursor.peek()) !== "{") return undefined;
  const scanner = new JsonScanner();
  let text = "";
  yield* cursor.scan(scanner.scan, (part) => (text += part));
  return scanner.state === "whole" ? { text, scanner } : undefined;
}

/** Reads a JSON object behind white space, as text; undefined if none comes next. */
export function* readObjectText(cursor: TextCursor): Reading<string | undefined> {
  yield* cursor.space();
  return (yield* readObject(cursor))?.text;
}

/** Reads the arguments of a call whose name has been read, and reports the call; false if they are not valid. */
export function* readCallArguments(context: CallContext, name: string, id?: string): Reading<boolean> {
  const text = yield* readObjectText(context.cursor);
  if (text === undefined || parsedJson(text) === undefined) return false;
  giveCall(context, name, text, id);
  return true;
}

/** How a list of calls is written. */
interface ListStyle {
  /** The mark behind the list, which may be missing. */
  readonly close?: string;
  readonly parse?: ParseCall;
  /** Which names are calls; all by default. */
  readonly known?: (context: CallContext, name: string) => boolean;
  /** Reads what is neither a list nor an object. */
  readonly other?: CallReader;
}

/** Reads `[{"name": …, "arguments": …}, …]` behind a mark, or a single object without the brackets. */
export function listedCalls({ close, parse, known = () => true, other }: ListStyle): CallSyntax {
  const readCall: CallReader = (context) => readJsonCall(context, (name) => known(context, name), parse);
  return function* readList(context): Reading<void> {
    const { cursor } = context;
    yield* cursor.space();
    const next = yield* cursor.peek();
    const isRead =
      next === "["
        ? yield* readItems(context, readCall)
        : next === "{" || other === undefined
          ? yield* readObjects(context, readCall)
          : yield* other(context);
    if (isRead && close !== undefined) yield* skipMark(context, close);
  };
}

/** Whether the list was complete; the calls before a broken one are reported. */
function* readItems(context: CallContext, readCall: CallReader): Reading<boolean> {
  const { cursor } = context;
  yield* cursor.literal("[");
  for (;;) {
    yield* cursor.space();
    if (!(yield* readCall(context))) return false;
    cursor.startRecord();
    yield* cursor.space();
    if (yield* cursor.literal("]")) {
      cursor.takeRecord();
      return true;
    }
    if (!(yield* cursor.literal(","))) return false;
  }
}

/** Reads objects one after another; whether there was a call. */
function* readObjects(context: CallContext, readCall: CallReader): Reading<boolean> {
  const { cursor } = context;
  if (!(yield* readCall(context))) return false;
  for (;;) {
    cursor.startRecord();
    const space = yield* cursor.space();
    if ((yield* cursor.peek()) !== "{") {
      // The closing mark, or text, which the white space belongs to.
      cursor.takeRecord();
      cursor.unread(space);
      return true;
    }
    if (!(yield* readCall(context))) return false;
  }
}

/**
 * Reads calls that are plain JSON, one after another, perhaps with semicolons, in a list or inside a code fence. Replies
 * are often JSON, so only objects that name a tool are calls.
 */
export function* readBareCalls(context: CallContext): Reading<void> {
  const { cursor, sink, tools } = context;
  if (cursor.recordedCharacters === 0) cursor.startRecord();
  yield* cursor.space();
  const fenced = yield* cursor.literal(FENCE);
  if (fenced) {
    yield* cursor.literal("json");
    yield* cursor.space();
  }
  const isList = yield* cursor.literal("[");
  if (isList) yield* cursor.space();
  while ((yield* cursor.peek()) === "{" && (yield* readJsonCall(context, (name) => tools.has(name)))) {
    cursor.startRecord();
    yield* cursor.space();
    if (isList && (yield* cursor.literal("]"))) {
      cursor.startRecord();
      yield* cursor.space();
    }
    if (fenced && (yield* cursor.literal(FENCE))) return void cursor.takeRecord();
    if (!(yield* cursor.literal(";"))) yield* cursor.literal(",");
    yield* cursor.space();
  }
  sink.text(cursor.takeRecord());
}

/** Reads a list of calls in a code fence, which only a tool's name tells from other JSON. */
export function* readFencedList(context: CallContext): Reading<void> {
  const { cursor } = context;
  yield* cursor.space();
  const fenced = yield* cursor.literal(FENCE);
  if (fenced) yield* cursor.literal("json");
  const read = listedCalls({
    ...(fenced ? { close: FENCE } : {}),
    known: ({ tools }, name) => tools.has(name),
  });
  yield* read(context);
}
