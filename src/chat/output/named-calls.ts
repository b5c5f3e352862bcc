// Reads calls that name the function in front of its arguments: Mistral's `name[ARGS]{…}`, functionary's
// `<function=name>{…}</function>`, and lists of functions with a tag for each parameter.

import { type CallContext, type CallSyntax, isFunctionName, readName } from "./call-context.js";
import { readCallArguments } from "./json-calls.js";
import { type ParameterStyle, readFunctionCall } from "./keyed-calls.js";
import type { Reading } from "./text-cursor.js";

/** Mistral's marks between the parts of a call. */
interface NamedCallMarks {
  readonly argumentsOpen: string;
  readonly callId: string;
}

/** Reads `name[CALL_ID]id[ARGS]{…}`; both marks may be missing. */
export function* readNamedCall(context: CallContext, { argumentsOpen, callId }: NamedCallMarks): Reading<boolean> {
  const { cursor } = context;
  const name = yield* readName(cursor);
  const id = (yield* cursor.literal(callId)) ? yield* readName(cursor) : undefined;
  yield* cursor.literal(argumentsOpen);
  return isFunctionName(name) && (yield* readCallArguments(context, name, id));
}

/** Reads `name>{…}</function>`; the closing tag may be missing. */
export function* readFunctionJson(context: CallContext): Reading<void> {
  const { cursor, tools } = context;
  const name = yield* readName(cursor);
  if (!tools.has(name) || !(yield* cursor.literal(">"))) return;
  if (!isFunctionName(name) || !(yield* readCallArguments(context, name))) return;
  cursor.startRecord();
  yield* cursor.space();
  if (yield* cursor.literal("</function>")) cursor.takeRecord();
}

/** Reads functions with a tag for each parameter up to the closing mark, which may be missing. */
export function readInvocations(style: ParameterStyle, close: string): CallSyntax {
  return function* readAll(context): Reading<void> {
    const { cursor } = context;
    for (let calls = 0; ; calls++) {
      cursor.keepRecord();
      yield* cursor.space();
      if (yield* cursor.literal(close)) return void (calls > 0 && cursor.takeRecord());
      if (!(yield* cursor.literal(style.functionOpen))) return;
      if (!(yield* readFunctionCall(context, style, isFunctionName))) return;
    }
  };
}
