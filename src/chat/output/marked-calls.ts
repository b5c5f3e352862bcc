// Reads a reply in which marks start tool calls: text up to a mark, then what follows with the mark's own reader.
// Invariants: a call is reported when it is complete and valid; text that turns out to be no call is reported as text,
// without loss; a reader stops as soon as a call is known to be invalid.

import type { CallContext, CallReader, CallSyntax } from "./call-context.js";
import { Markers, type Reading } from "./text-cursor.js";

/** Reads a text without calls. */
export function* plainText(context: CallContext): Reading<void> {
  yield* markedCalls(context, {});
}

/** Reads text up to each marker, and what follows with the marker's reader, which leaves what it cannot use. */
export function* markedCalls(context: CallContext, readers: Readonly<Record<string, CallSyntax>>): Reading<void> {
  const { cursor, sink, answerMarks } = context;
  const markers = new Markers([...Object.keys(readers), ...answerMarks]);
  for (;;) {
    const marker = yield* cursor.until(markers, (text) => sink.text(text));
    if (marker === undefined) return;
    const read = readers[marker];
    if (read === undefined) {
      sink.turn();
      continue;
    }
    // The marker, which has been read already, is part of the text if no call follows.
    cursor.startRecord(marker);
    yield* read(context);
    sink.text(cursor.takeRecord());
  }
}

/** Reads a call behind an opening mark; the closing mark may be missing. */
export function closedBy(close: string, readCall: CallReader): CallSyntax {
  return function* readClosed(context): Reading<void> {
    yield* context.cursor.space();
    if (yield* readCall(context)) yield* skipMark(context, close);
  };
}

/** Skips a mark and the white space in front of it; without the mark, the white space is recorded as text. */
export function* skipMark({ cursor }: CallContext, mark: string): Reading<boolean> {
  cursor.startRecord();
  yield* cursor.space();
  const found = yield* cursor.literal(mark);
  if (found) cursor.takeRecord();
  return found;
}
