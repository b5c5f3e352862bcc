// Reads calls whose arguments are in a notation of their own: Python's `name(a=1)` (LFM2, OLMo 3), and Gemma 4's
// `call:name{a:1}`.

import { type CallContext, type CallSyntax, giveCall, isFunctionName, readName } from "./call-context.js";
import { isPlainObject } from "../../plain-object.js";
import { readHermesCall } from "./json-calls.js";
import { type LiteralNotation, mapArguments, pythonArguments, PYTHON_NOTATION } from "./literal-parser.js";
import { readBracketed } from "./literal-scanner.js";
import { skipMark } from "./marked-calls.js";
import type { Reading } from "./text-cursor.js";

/** Marks the start and the end of a string in Gemma 4's calls. */
export const MAP_QUOTE = '<|"|>';
/** Gemma 4's values: bare keys, and strings between marks, without escapes. */
export const MAP_NOTATION: LiteralNotation = { quotes: [MAP_QUOTE], escapes: false, bareText: true };

const MAP_CALL = "call:";

/** Reads `[name(a=1), …]` behind a mark, or one call on each line, up to the closing mark, which may be missing. */
export function pythonCalls(close: string): CallSyntax {
  return function* readCalls(context): Reading<void> {
    const { cursor } = context;
    yield* cursor.space();
    const isList = yield* cursor.literal("[");
    for (;;) {
      yield* cursor.space();
      // These models also write a list of JSON objects, if the prompt asks for it.
      const isRead = (yield* cursor.peek()) === "{" ? yield* readHermesCall(context) : yield* readPythonCall(context);
      if (!isRead) return;
      cursor.startRecord();
      yield* cursor.space();
      if (isList) {
        if (yield* cursor.literal(",")) continue;
        if (yield* cursor.literal("]")) yield* skipMark(context, close);
        return;
      }
      if (yield* cursor.literal(close)) return void cursor.takeRecord();
    }
  };
}

function* readPythonCall(context: CallContext): Reading<boolean> {
  const { cursor, tools } = context;
  const name = yield* readName(cursor);
  const text = yield* readBracketed(cursor, PYTHON_NOTATION);
  if (!isFunctionName(name) || text?.startsWith("(") !== true) return false;
  const properties = tools.get(name)?.parameters["properties"];
  const given = pythonArguments(text.slice(1, -1), isPlainObject(properties) ? Object.keys(properties) : []);
  if (given === undefined) return false;
  giveCall(context, name, given);
  return true;
}

/** Reads `call:name{a:<|"|>text<|"|>,b:1}` behind a mark. */
export function* readMapCall(context: CallContext): Reading<boolean> {
  const { cursor } = context;
  if (!(yield* cursor.literal(MAP_CALL))) return false;
  const name = yield* readName(cursor);
  const text = yield* readBracketed(cursor, MAP_NOTATION);
  const given = text === undefined ? undefined : mapArguments(text, MAP_NOTATION);
  if (!isFunctionName(name) || given === undefined) return false;
  giveCall(context, name, given);
  return true;
}
