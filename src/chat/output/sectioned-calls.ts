// Reads calls in a section of their own, each with marks around its name and its JSON arguments: those of DeepSeek V3,
// R1 and V3.1, and of Kimi K2.

import { type CallContext, type CallSyntax, giveCall, isFunctionName, readName } from "./call-context.js";
import { parsedJson } from "../../plain-object.js";
import { readObjectText } from "./json-calls.js";
import { skipMark } from "./marked-calls.js";
import type { Reading } from "./text-cursor.js";

/** The marks of a section of calls. */
export interface SectionMarks {
  readonly sectionOpen: string;
  readonly callOpen: string;
  /** Between what names the call and its arguments. */
  readonly separator: string;
  readonly callClose: string;
  readonly sectionClose: string;
}

/** The marks of DeepSeek V3, R1 and V3.1. */
export const SEPARATED_MARKS: SectionMarks = {
  sectionOpen: "<｜tool▁calls▁begin｜>",
  callOpen: "<｜tool▁call▁begin｜>",
  separator: "<｜tool▁sep｜>",
  callClose: "<｜tool▁call▁end｜>",
  sectionClose: "<｜tool▁calls▁end｜>",
};

/** The marks of Kimi K2. */
export const NUMBERED_MARKS: SectionMarks = {
  sectionOpen: "<|tool_calls_section_begin|>",
  callOpen: "<|tool_call_begin|>",
  separator: "<|tool_call_argument_begin|>",
  callClose: "<|tool_call_end|>",
  sectionClose: "<|tool_calls_section_end|>",
};

/** Kimi's name for a tool in its ids. */
export const ID_PREFIX = "functions.";

const FENCE = "```";

/** What the marks of a call enclose. */
interface SectionedCall {
  readonly name: string;
  readonly arguments: string;
  readonly id?: string;
}

type ReadCall = (context: CallContext, marks: SectionMarks) => Reading<SectionedCall | undefined>;

/** Reads the calls behind the opening mark of a section. */
export function sectionCalls(marks: SectionMarks, readCall: ReadCall): CallSyntax {
  return function* readSection(context): Reading<void> {
    const { cursor } = context;
    for (let calls = 0; ; calls++) {
      cursor.keepRecord();
      yield* cursor.space();
      if (yield* cursor.literal(marks.sectionClose)) return void (calls > 0 && cursor.takeRecord());
      if (!(yield* cursor.literal(marks.callOpen)) || !(yield* readSectioned(context, marks, readCall))) return;
    }
  };
}

/** Reads one call behind its own opening mark, if the model omits the section. */
export function sectionlessCall(marks: SectionMarks, readCall: ReadCall): CallSyntax {
  return function* readAlone(context): Reading<void> {
    yield* readSectioned(context, marks, readCall);
  };
}

function* readSectioned(context: CallContext, marks: SectionMarks, readCall: ReadCall): Reading<boolean> {
  const call = yield* readCall(context, marks);
  if (call === undefined || !isFunctionName(call.name) || parsedJson(call.arguments) === undefined) return false;
  giveCall(context, call.name, call.arguments, call.id);
  yield* skipMark(context, marks.callClose);
  return true;
}

/** Reads `name<sep>{…}`, or `function<sep>name⏎` and the arguments in a code fence. */
export function* readSeparatedCall({ cursor }: CallContext, marks: SectionMarks): Reading<SectionedCall | undefined> {
  const first = yield* readName(cursor);
  if (!(yield* cursor.literal(marks.separator))) return undefined;
  yield* cursor.space();
  if ((yield* cursor.peek()) === "{") {
    const json = yield* readObjectText(cursor);
    return json === undefined ? undefined : { name: first, arguments: json };
  }
  const name = yield* readName(cursor);
  const fenced = yield* cursor.literal(FENCE);
  if (fenced) yield* cursor.literal("json");
  const json = yield* readObjectText(cursor);
  if (json === undefined) return undefined;
  yield* cursor.space();
  if (fenced) yield* cursor.literal(FENCE);
  return { name, arguments: json };
}

/** Reads `functions.name:0<sep>{…}`; what is in front of the arguments is the call's id. */
export function* readNumberedCall({ cursor }: CallContext, marks: SectionMarks): Reading<SectionedCall | undefined> {
  const id = yield* readName(cursor);
  if (!(yield* cursor.literal(marks.separator))) return undefined;
  const json = yield* readObjectText(cursor);
  if (json === undefined) return undefined;
  const name = id.replace(/:\d+$/, "");
  return { name: name.startsWith(ID_PREFIX) ? name.slice(ID_PREFIX.length) : name, arguments: json, id };
}
