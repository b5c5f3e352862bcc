// Finds the large parts of a JSON text in one pass over its bytes, checking only brackets, depth and numbers of values.
// Invariants: the text between two recorded commas of a large value is either small or one large value with its name;
// whether it is valid JSON is left to the parser.

import type { JsonBounds } from "./json-body.js";
import type { Divisible } from "./time-share.js";

/** A large list, object or text in a JSON text. */
export interface JsonOutline {
  readonly kind: "list" | "object" | "text";
  /** The index of the value's first byte, and the index after its last. */
  readonly start: number;
  readonly end: number;
  /** Indices of some of the commas between its values, in order. */
  readonly commas: readonly number[];
  /** Its large values, in order. */
  readonly children: readonly JsonOutline[];
}

/** The outline of a JSON text, or what is wrong with it. */
interface OutlinedJson {
  /** What is wrong with the text; undefined if nothing was found. */
  readonly problem: string | undefined;
  /** The whole value, if it is large. */
  readonly root: JsonOutline | undefined;
}

/** A list or object whose end has not been reached. */
interface Open {
  readonly isList: boolean;
  readonly start: number;
  readonly commas: number[];
  readonly children: JsonOutline[];
  lastComma: number;
  members: number;
}

/** Bytes that are scanned in one turn. */
const TURN_BYTES = 65_536;

const QUOTE = 0x22;
const COMMA = 0x2c;
const BACKSLASH = 0x5c;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;

/** The outline of a text whose brackets or quotes do not match. */
export const UNMATCHED: OutlinedJson = {
  problem: "expected a JSON object, found text that is not JSON",
  root: undefined,
};

/** Outlines a text; parts of more than `chunkBytes` are large. If that is infinite, there is one turn only. */
export function* outlineOf(bytes: Uint8Array, bounds: JsonBounds, chunkBytes: number): Divisible<OutlinedJson> {
  const open: Open[] = [];
  const marks = new TextMarks(bytes);
  let root: JsonOutline | undefined;
  let isClosed = false;
  let values = 1;
  /** The index of the last byte that is neither white space nor part of a number or a literal. */
  let lastMark = 0;
  let turnEnd = Number.isFinite(chunkBytes) ? TURN_BYTES : Infinity;
  const close = (outline: JsonOutline): void => {
    const parent = open.at(-1);
    if (parent === undefined) {
      isClosed = true;
      if (outline.end - outline.start > chunkBytes) root = outline;
      return;
    }
    if (outline.end - outline.start <= chunkBytes) return;
    parent.children.push(outline);
    // A recorded comma separates it from what comes before it.
    if (parent.lastComma > (parent.commas.at(-1) ?? -1)) parent.commas.push(parent.lastComma);
  };
  for (let at = 0; at < bytes.length; at++) {
    if (at >= turnEnd) {
      turnEnd = at + TURN_BYTES;
      yield;
    }
    switch (bytes[at]) {
      case QUOTE: {
        const start = at;
        lastMark = at;
        for (at = marks.next(at + 1); at < bytes.length && bytes[at] === BACKSLASH; at = marks.next(at + 2)) {
          if (at < turnEnd) continue;
          turnEnd = at + TURN_BYTES;
          yield;
        }
        if (at >= bytes.length) return UNMATCHED;
        close({ kind: "text", start, end: at + 1, commas: [], children: [] });
        lastMark = at;
        break;
      }
      case OPEN_BRACKET:
      case OPEN_BRACE:
        values++;
        lastMark = at;
        if (open.length === 0 && isClosed) return UNMATCHED;
        open.push({
          isList: bytes[at] === OPEN_BRACKET,
          start: at,
          commas: [],
          children: [],
          lastComma: -1,
          members: 1,
        });
        if (open.length > bounds.depth)
          return {
            problem: `expected at most ${bounds.depth} levels of lists and objects, found more`,
            root: undefined,
          };
        break;
      case CLOSE_BRACKET:
      case CLOSE_BRACE: {
        const ended = open.pop();
        lastMark = at;
        if (ended === undefined || ended.isList !== (bytes[at] === CLOSE_BRACKET)) return UNMATCHED;
        close({
          kind: ended.isList ? "list" : "object",
          start: ended.start,
          end: at + 1,
          commas: ended.commas,
          children: ended.children,
        });
        break;
      }
      case COMMA: {
        values++;
        lastMark = at;
        const parent = open.at(-1);
        if (parent === undefined) break;
        if (!parent.isList && ++parent.members > bounds.members)
          return { problem: `expected at most ${bounds.members} fields in an object, found more`, root: undefined };
        const lastNoted = Math.max(parent.start, parent.commas.at(-1) ?? -1, parent.children.at(-1)?.start ?? -1);
        const followsLarge =
          parent.children.length > 0 && (parent.children.at(-1) as JsonOutline).start > (parent.commas.at(-1) ?? -1);
        if (followsLarge || at - lastNoted > chunkBytes / 2) parent.commas.push(at);
        parent.lastComma = at;
        break;
      }
      default:
        if (at - lastMark > chunkBytes)
          return {
            problem: `expected at most ${chunkBytes} bytes of white space, or of a number, found more`,
            root: undefined,
          };
    }
    if (values > bounds.values)
      return { problem: `expected at most ${bounds.values} values, found more`, root: undefined };
  }
  return open.length > 0 ? UNMATCHED : { problem: undefined, root };
}

/** Up to this many bytes, stepping is faster than searching. */
const SHORT_STEP = 16;

/** Finds quotes and escapes in texts, by searching if they are far apart; each byte is searched at most once. */
class TextMarks {
  readonly #bytes: Uint8Array;
  #quote = -1;
  #backslash = -1;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  /** The index of the first quote or escape from `from` on, or the end. */
  next(from: number): number {
    const bytes = this.#bytes;
    const near = Math.min(from + SHORT_STEP, bytes.length);
    for (let at = from; at < near; at++) if (bytes[at] === QUOTE || bytes[at] === BACKSLASH) return at;
    if (this.#quote < near) this.#quote = this.#find(QUOTE, near);
    if (this.#backslash < near) this.#backslash = this.#find(BACKSLASH, near);
    return Math.min(this.#quote, this.#backslash);
  }

  #find(byte: number, from: number): number {
    const found = this.#bytes.indexOf(byte, from);
    return found === -1 ? this.#bytes.length : found;
  }
}
