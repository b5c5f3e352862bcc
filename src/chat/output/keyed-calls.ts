// Reads calls whose arguments are plain text, key by key between tags: those of GLM and Qwen3-Coder. The tool's schema
// determines the type of each value. Invariant: a reader that reports no call has read only what the caller recorded.

import { CALL_CLOSE, type CallContext, giveCall, isFunctionName, readName } from "./call-context.js";
import { MAX_CALL_CHARACTERS } from "../limits.js";
import { Markers, type Reading, type TextCursor } from "./text-cursor.js";
import { type GivenArgument, typedArguments } from "./typed-arguments.js";

const KEY_OPEN = "<arg_key>";
const KEY_CLOSE = "</arg_key>";
const VALUE_OPEN = "<arg_value>";
const VALUE_CLOSE = "</arg_value>";
/** Tags around keys and values in GLM's calls, which may be control tokens. */
export const KEY_MARKS = [KEY_OPEN, KEY_CLOSE, VALUE_OPEN, VALUE_CLOSE] as const;

/** Start of a function's opening tag in Qwen3-Coder's calls. */
export const FUNCTION_OPEN = "<function=";
/** Closing tag of a function in Qwen3-Coder's calls. */
export const FUNCTION_CLOSE = "</function>";
/** Start of a parameter's opening tag in Qwen3-Coder's calls. */
export const PARAMETER_OPEN = "<parameter=";

const KEY_CLOSES = new Markers([KEY_CLOSE]);
const VALUE_CLOSES = new Markers([VALUE_CLOSE]);
const PARAMETER_NAME_CLOSES = new Markers([">"]);
const PARAMETER_CLOSES = new Markers(["</parameter>"]);

/** Reads `name⏎<arg_key>a</arg_key>⏎<arg_value>1</arg_value>⏎…</tool_call>`. */
export function* readKeyedCall(context: CallContext): Reading<boolean> {
  const { cursor } = context;
  const name = yield* readName(cursor);
  return giveTyped(context, name, yield* readUntil(cursor, CALL_CLOSE, readKeyAndValue));
}

/** Reads `<function=name>⏎<parameter=a>⏎1⏎</parameter>⏎…</function>`, whose opening has been read. */
export function* readFunctionCall(context: CallContext, known: (name: string) => boolean): Reading<boolean> {
  const { cursor } = context;
  const name = yield* readName(cursor);
  if (!known(name) || !(yield* cursor.literal(">"))) return false;
  yield* cursor.space();
  return giveTyped(context, name, yield* readUntil(cursor, FUNCTION_CLOSE, readParameter));
}

/** Reads arguments up to the closing tag; undefined if something else follows. */
function* readUntil(
  cursor: TextCursor,
  close: string,
  readArgument: (cursor: TextCursor) => Reading<GivenArgument | undefined>,
): Reading<readonly GivenArgument[] | undefined> {
  const given: GivenArgument[] = [];
  while (!(yield* cursor.literal(close))) {
    const argument = yield* readArgument(cursor);
    if (argument === undefined || cursor.recordedCharacters > MAX_CALL_CHARACTERS) return undefined;
    given.push(argument);
    yield* cursor.space();
  }
  return given;
}

function* readKeyAndValue(cursor: TextCursor): Reading<GivenArgument | undefined> {
  const key = yield* readElement(cursor, KEY_OPEN, KEY_CLOSES);
  if (key === undefined) return undefined;
  yield* cursor.space();
  const value = yield* readElement(cursor, VALUE_OPEN, VALUE_CLOSES);
  return value === undefined ? undefined : [key.trim(), value];
}

function* readParameter(cursor: TextCursor): Reading<GivenArgument | undefined> {
  const key = yield* readElement(cursor, PARAMETER_OPEN, PARAMETER_NAME_CLOSES);
  const value = key === undefined ? undefined : yield* readElement(cursor, "", PARAMETER_CLOSES);
  // A value is on lines of its own; the line breaks around it are no part of it.
  return key === undefined || value === undefined
    ? undefined
    : [key.trim(), value.replace(/^\r?\n/, "").replace(/\r?\n$/, "")];
}

function* readElement(cursor: TextCursor, open: string, closes: Markers): Reading<string | undefined> {
  if (!(yield* cursor.literal(open))) return undefined;
  let all = "";
  return (yield* cursor.until(closes, (text) => (all += text))) === undefined ? undefined : all;
}

function giveTyped(context: CallContext, name: string, given: readonly GivenArgument[] | undefined): boolean {
  if (given === undefined || !isFunctionName(name)) return false;
  const json = typedArguments(given, context.tools.get(name));
  if (json === undefined) return false;
  giveCall(context, name, json);
  return true;
}
