// Reads harmony, the format of gpt-oss: a reply is a list of messages, each with a header that names its channel and,
// for a call, its recipient. `analysis` is reasoning, `commentary` and `final` are text. The prompt ends inside the
// first header. The format is published at github.com/openai/harmony.

import { type CallContext, isFunctionName } from "./call-context.js";
import { readCallArguments } from "./json-calls.js";
import { Markers, type Reading, readWord, type TextCursor } from "./text-cursor.js";

const START = "<|start|>";
const CHANNEL = "<|channel|>";
const MESSAGE = "<|message|>";
const CONSTRAIN = "<|constrain|>";
const END = "<|end|>";
const CALL = "<|call|>";
const RETURN = "<|return|>";
const RECIPIENT = "to=";
/** The namespace of the client's tools. */
const FUNCTIONS = "functions.";
/** Longer text in front of a message is no header. */
const MAX_HEADER_CHARACTERS = 1024;

/** Marks of a reply, which may be control tokens. */
export const HARMONY_MARKS = [START, CHANNEL, MESSAGE, CONSTRAIN, END, CALL, RETURN] as const;

/** What stands in front of a thought, of the arguments of a call, and of the answer, behind the prompt or `next`. */
export const HARMONY_PREFIX = {
  call: (name: string): string => `${CHANNEL}commentary ${RECIPIENT}${FUNCTIONS}${name} ${CONSTRAIN}json${MESSAGE}`,
  thought: `${CHANNEL}analysis${MESSAGE}`,
  answer: `${CHANNEL}final${MESSAGE}`,
  next: `${END}${START}assistant`,
} as const;

/** What ends the arguments of a call. */
export const HARMONY_CALL_END = CALL;

const BODY_ENDS = new Markers([START, CHANNEL, END, CALL, RETURN]);

interface Header {
  channel: string;
  recipient: string | undefined;
}

/** Reads a whole reply. */
export function* readHarmony(context: CallContext): Reading<void> {
  const { cursor, sink } = context;
  for (;;) {
    cursor.startRecord();
    const header = yield* readHeader(cursor);
    const isCall = header !== undefined && (yield* readCall(context, header));
    const isReasoning = header?.channel === "analysis" && !isCall && header.recipient === undefined;
    const kind = isReasoning ? "reasoning" : "text";
    if (!isCall) {
      const read = cursor.takeRecord();
      // A header without a call is no text; what is no header, or a call that is not valid, is.
      const isMessage = header !== undefined && toolOf(context, header) === undefined;
      if (isMessage) sink.startPart(kind);
      else sink.text(read);
    }
    const marker = yield* cursor.until(BODY_ENDS, (text) => sink.write(kind, text));
    if (marker === undefined) return;
    if (marker === START || marker === CHANNEL) cursor.unread(marker);
  }
}

/** Reads up to the start of a message; undefined if there is no header. */
function* readHeader(cursor: TextCursor): Reading<Header | undefined> {
  const header: Header = { channel: "", recipient: undefined };
  let isHeader = false;
  while (cursor.recordedCharacters < MAX_HEADER_CHARACTERS) {
    yield* cursor.space();
    if (yield* cursor.literal(MESSAGE)) return header;
    if (yield* cursor.literal(CHANNEL)) header.channel = yield* readWord(cursor);
    else if (yield* cursor.literal(RECIPIENT)) header.recipient = yield* readWord(cursor);
    // A role, or the type of the content: nothing follows from either.
    else if ((yield* cursor.literal(START)) || (yield* cursor.literal(CONSTRAIN))) yield* readWord(cursor);
    else if (!isHeader || (yield* readWord(cursor)) === "") return undefined;
    isHeader = true;
  }
  return undefined;
}

/** The tool that a header calls; undefined if it calls none. */
function toolOf({ tools }: CallContext, { recipient }: Header): string | undefined {
  if (recipient === undefined || tools.size === 0) return undefined;
  if (recipient.startsWith(FUNCTIONS)) return recipient.slice(FUNCTIONS.length);
  return tools.has(recipient) ? recipient : undefined;
}

function* readCall(context: CallContext, header: Header): Reading<boolean> {
  const name = toolOf(context, header);
  return name !== undefined && isFunctionName(name) && (yield* readCallArguments(context, name));
}
