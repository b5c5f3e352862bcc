// What the readers of tool calls share: their input and output, and the rules for function names.

import type { DeltaSink } from "./delta-sink.js";
import type { ChatTool } from "../message.js";
import type { Reading, TextCursor } from "./text-cursor.js";

/** What a reader of tool calls reads from and reports to. */
export interface CallContext {
  readonly cursor: TextCursor;
  readonly sink: DeltaSink;
  readonly tools: ReadonlyMap<string, ChatTool>;
  /** Marks around the answer, which are no part of its text. */
  readonly answerMarks: readonly string[];
}

/** Reads the rest of a reply. */
export type CallSyntax = (context: CallContext) => Reading<void>;
/** Reads and reports one call; false if there is none. */
export type CallReader = (context: CallContext) => Reading<boolean>;

/** Opening tag of a tool call in the conventions of Hermes, Qwen and GLM. */
export const CALL_OPEN = "<tool_call>";
/** Closing tag of a tool call in the conventions of Hermes, Qwen and GLM. */
export const CALL_CLOSE = "</tool_call>";

const NAME_CHARACTER = /[\w.:\-\s]/;

/** Reads the characters that may be part of a name; `isFunctionName` checks it. */
export function* readName(cursor: TextCursor): Reading<string> {
  let name = "";
  yield* cursor.scan(nameEnd, (text) => (name += text));
  return name.trim();
}

function nameEnd(text: string, from: number): number | undefined {
  for (let at = from; at < text.length; at++) if (!NAME_CHARACTER.test(text[at] as string)) return at;
  return undefined;
}

/** Names as OpenAI allows them, and dots and colons, which some tools use. */
export function isFunctionName(name: string): boolean {
  return /^[\w.:-]{1,128}$/.test(name);
}

/** Reports a call; the recorded text belongs to it and is dropped. */
export function giveCall({ cursor, sink }: CallContext, name: string, argumentsText: string, id?: string): void {
  cursor.takeRecord();
  const index = id === undefined ? sink.startCall(name) : sink.startCall(name, id);
  sink.callArguments(index, argumentsText);
  sink.endCall(index);
}
