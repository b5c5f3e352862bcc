// Reads replies in which every part is marked, calls or not: Solar Open's thoughts, contents and calls, and the
// recipients of functionary 3.2.

import type { CallContext } from "./call-context.js";
import type { TextKind } from "./delta-sink.js";
import { readCallArguments, readObjectText } from "./json-calls.js";
import { sectionCalls, type SectionMarks } from "./sectioned-calls.js";
import { Markers, type Reading, readWord } from "./text-cursor.js";

const THINK = "<|think|>";
const CONTENT = "<|content|>";
const CALLS = "<|tool_calls|>";
const BEGIN = "<|begin|>";
const END = "<|end|>";
const FLUSH = "<|flush|>";
const CALLS_END = "<|calls|>";
const CALL_NAME = "<|tool_call:name|>";

/** The marks of Solar's calls. */
const PART_CALLS: SectionMarks = {
  sectionOpen: CALLS,
  callOpen: "<|tool_call:begin|>",
  separator: "<|tool_call:args|>",
  callClose: "<|tool_call:end|>",
  sectionClose: CALLS_END,
};

/** Marks of Solar's replies, which may be control tokens. */
export const PART_MARKS = [
  THINK,
  CONTENT,
  BEGIN,
  END,
  FLUSH,
  CALL_NAME,
  ...Object.values(PART_CALLS as unknown as Readonly<Record<string, string>>),
];

/** What stands around the arguments of a call, and in front of a thought and the answer, behind the prompt or `next`. */
export const PART_PREFIX = {
  call: (name: string, id: string): string =>
    `${CALLS}${PART_CALLS.callOpen}${id}${CALL_NAME}${name}${PART_CALLS.separator}`,
  callEnd: `${PART_CALLS.callClose}${CALLS_END}`,
  thought: THINK,
  answer: CONTENT,
  next: `${END}${BEGIN}assistant`,
} as const;

const PARTS = new Markers([THINK, CONTENT, CALLS, BEGIN, END, FLUSH, CALLS_END]);

const readPartCalls = sectionCalls(PART_CALLS, function* readCall({ cursor }, marks) {
  const id = yield* readWord(cursor);
  if (!(yield* cursor.literal(CALL_NAME))) return undefined;
  const name = yield* readWord(cursor);
  if (!(yield* cursor.literal(marks.separator))) return undefined;
  const json = yield* readObjectText(cursor);
  return json === undefined ? undefined : { name, arguments: json, ...(id === "" ? {} : { id }) };
});

/** Reads a reply of `<|think|>…<|end|>`, `<|content|>…<|end|>` and `<|tool_calls|>…`. */
export function* readParts(context: CallContext): Reading<void> {
  const { cursor, sink, tools } = context;
  let kind: TextKind = "text";
  for (;;) {
    const marker = yield* cursor.until(PARTS, (text) => sink.write(kind, text));
    if (marker === undefined) return;
    kind = marker === THINK ? "reasoning" : "text";
    if (marker === THINK || marker === CONTENT) sink.startPart(kind);
    // The role, which is the assistant's.
    else if (marker === BEGIN) yield* readWord(cursor);
    else if (marker === CALLS) {
      cursor.startRecord(marker);
      if (tools.size > 0) yield* readPartCalls(context);
      sink.text(cursor.takeRecord());
    }
  }
}

/** Starts a part of a reply of functionary 3.2; the prompt ends with the first one. */
export const RECIPIENT = ">>>";
/** The recipient of text. */
const EVERYONE = "all";
const RECIPIENTS = new Markers([RECIPIENT]);

/** What stands in front of the arguments of a call, and of the answer, behind the prompt. */
export const RECIPIENT_PREFIX = { call: (name: string): string => `${name}\n`, answer: `${EVERYONE}\n` } as const;

/** Reads a reply of `all⏎text` and `name⏎{…}`, with `>>>` between its parts. */
export function* readRecipients(context: CallContext): Reading<void> {
  const { cursor, sink, tools } = context;
  cursor.startRecord();
  for (;;) {
    const name = yield* readWord(cursor);
    const isPart = yield* cursor.literal("\n");
    if (isPart && name === EVERYONE) {
      cursor.takeRecord();
      sink.startPart("text");
    } else if (isPart && tools.has(name)) {
      yield* readCallArguments(context, name);
    }
    sink.text(cursor.takeRecord());
    if ((yield* cursor.until(RECIPIENTS, (text) => sink.text(text))) === undefined) return;
    cursor.startRecord(RECIPIENT);
  }
}
