// What the readers of tool calls share: what they read from and give to, the tags that several families write, and what
// may be the name of a function.

import type { DeltaSink } from "./delta-sink.js";
import type { ChatTool } from "../message.js";
import type { Reading, TextCursor } from "./text-cursor.js";

export interface CallContext {
  readonly cursor: TextCursor;
  readonly sink: DeltaSink;
  readonly tools: ReadonlyMap<string, ChatTool>;
}

export const CALL_OPEN = "<tool_call>";
export const CALL_CLOSE = "</tool_call>";

const NAME_CHARACTER = /[\w.\-\s]/;

/** As far as a name can go; whether it is one, `isFunctionName` says. */
export function* readName(cursor: TextCursor): Reading<string> {
  let name = "";
  yield* cursor.scan(nameEnd, (text) => (name += text));
  return name.trim();
}

function nameEnd(text: string, from: number): number | undefined {
  for (let at = from; at < text.length; at++) if (!NAME_CHARACTER.test(text[at] as string)) return at;
  return undefined;
}

/** As OpenAI allows them, and with dots, which some tools have. */
export function isFunctionName(name: string): boolean {
  return /^[\w.-]{1,128}$/.test(name);
}

/** What was recorded belongs to the call and is gone. */
export function giveCall({ cursor, sink }: CallContext, name: string, argumentsText: string, id?: string): void {
  cursor.takeRecord();
  const index = id === undefined ? sink.startCall(name) : sink.startCall(name, id);
  sink.callArguments(index, argumentsText);
  sink.endCall(index);
}
