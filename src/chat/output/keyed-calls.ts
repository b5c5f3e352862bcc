// Reads calls whose arguments are plain text, key by key between tags: those of GLM, Qwen3-Coder, Seed, MiniMax and
// DeepSeek V3.2. The tool's schema determines the type of each value. Invariant: a reader that reports no call has read
// only what the caller recorded.

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

const KEY_CLOSES = new Markers([KEY_CLOSE]);
const VALUE_CLOSES = new Markers([VALUE_CLOSE]);
const TAG_CLOSES = new Markers([">"]);

/** How a family writes a call with a tag for each parameter. */
export interface ParameterStyle {
  /** Start of the function's opening tag, up to its name. */
  readonly functionOpen: string;
  /** The rest of the function's opening tag. */
  readonly functionOpened: string;
  readonly functionClose: string;
  /** Start of a parameter's opening tag, up to its name. */
  readonly parameterOpen: string;
  /** The rest of the opening tag of a parameter whose value is text. */
  readonly textOpened: string;
  /** The rest of the opening tag of a parameter whose value is JSON. */
  readonly jsonOpened: string;
  readonly parameterClose: string;
  /** White space around a value: a line break that is no part of it, or nothing. */
  readonly line: "\n" | "";
}

/** Qwen3-Coder's parameters, which are on lines of their own. */
export const LINE_PARAMETERS: ParameterStyle = {
  functionOpen: "<function=",
  functionOpened: ">",
  functionClose: "</function>",
  parameterOpen: "<parameter=",
  textOpened: ">",
  jsonOpened: ">",
  parameterClose: "</parameter>",
  line: "\n",
};

/** Seed's parameters. */
export const PLAIN_PARAMETERS: ParameterStyle = { ...LINE_PARAMETERS, line: "" };

/** MiniMax's parameters. */
export const NAMED_PARAMETERS: ParameterStyle = {
  functionOpen: '<invoke name="',
  functionOpened: '">',
  functionClose: "</invoke>",
  parameterOpen: '<parameter name="',
  textOpened: '">',
  jsonOpened: '">',
  parameterClose: "</parameter>",
  line: "",
};

/** DeepSeek V3.2's parameters, which say whether their value is a text. */
export const TYPED_PARAMETERS: ParameterStyle = {
  functionOpen: '<｜DSML｜invoke name="',
  functionOpened: '">',
  functionClose: "</｜DSML｜invoke>",
  parameterOpen: '<｜DSML｜parameter name="',
  textOpened: '" string="true">',
  jsonOpened: '" string="false">',
  parameterClose: "</｜DSML｜parameter>",
  line: "",
};

/** Reads `name⏎<arg_key>a</arg_key>⏎<arg_value>1</arg_value>⏎…</tool_call>`. */
export function* readKeyedCall(context: CallContext): Reading<boolean> {
  const { cursor } = context;
  const name = yield* readName(cursor);
  return giveTyped(context, name, yield* readUntil(cursor, CALL_CLOSE, readKeyAndValue));
}

/** Reads `<function=name>⏎<parameter=a>⏎1⏎</parameter>⏎…</function>`, whose opening has been read. */
export function* readFunctionCall(
  context: CallContext,
  style: ParameterStyle,
  known: (name: string) => boolean,
): Reading<boolean> {
  const { cursor } = context;
  const name = yield* readName(cursor);
  if (!known(name) || !(yield* cursor.literal(style.functionOpened))) return false;
  yield* cursor.space();
  const read = (inside: TextCursor): Reading<GivenArgument | undefined> => readParameter(inside, style);
  return giveTyped(context, name, yield* readUntil(cursor, style.functionClose, read));
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

/** Reads `<arg_key>a</arg_key>⏎<arg_value>1</arg_value>`. */
export function* readKeyAndValue(cursor: TextCursor): Reading<GivenArgument | undefined> {
  const key = yield* readElement(cursor, KEY_OPEN, KEY_CLOSES);
  if (key === undefined) return undefined;
  yield* cursor.space();
  const value = yield* readElement(cursor, VALUE_OPEN, VALUE_CLOSES);
  return value === undefined ? undefined : { key: key.trim(), value };
}

/** Reads `<parameter=a>⏎1⏎</parameter>`. */
export function* readParameter(cursor: TextCursor, style: ParameterStyle): Reading<GivenArgument | undefined> {
  const tag = yield* readElement(cursor, style.parameterOpen, TAG_CLOSES);
  if (tag === undefined) return undefined;
  const value = yield* readElement(cursor, "", new Markers([style.parameterClose]));
  if (value === undefined) return undefined;
  const key = tag.split('"', 1)[0].trim();
  const isText = style.textOpened !== style.jsonOpened && `${tag}>`.endsWith(style.textOpened);
  // A value on lines of its own does not contain the line breaks around it.
  return { key, value: style.line === "" ? value : value.replace(/^\r?\n/, "").replace(/\r?\n$/, ""), isText };
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
