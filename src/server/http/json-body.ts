// Parses the body of a request. Invariants: bytes that are not UTF-8 are refused, not replaced; depth and numbers of
// values are counted before anything is built, in one pass and without recursion; a large body is parsed in turns of a
// fraction of a millisecond each, whatever it contains, and gives what JSON.parse would give, or is refused if it has
// names, numbers or white space of more than a chunk.

import { type JsonOutline, outlineOf, UNMATCHED } from "./json-outline.js";
import { RequestError } from "./request-error.js";
import type { Divisible, TimeShare } from "./time-share.js";

/** Limits on the structure of a body. */
export interface JsonBounds {
  readonly depth: number;
  readonly values: number;
  /** Fields of one object. */
  readonly members: number;
}

/** Bodies up to this size are parsed at once, in a millisecond or two. */
const SMALL_BYTES = 65_536;
/**
 * The main thread's time per byte for reading the socket and joining the chunks, measured with bodies of a megabyte.
 */
const RECEIVING_MS_PER_BYTE = 6e-6;
const MAX_SHOWN_CHARACTERS = 64;
const NOT_JSON = "expected a JSON object, found text that is not JSON";
const BODY_DECODER = new TextDecoder("utf-8", { fatal: true });
const PART_DECODER = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const BYTE_ORDER_MARK = Uint8Array.of(0xef, 0xbb, 0xbf);

/** Parses a request's body; the signal aborts parsing a large one. */
export async function readJsonBody(
  bytes: Buffer,
  bounds: JsonBounds,
  share: TimeShare,
  signal?: AbortSignal,
): Promise<unknown> {
  if (bytes.length <= SMALL_BYTES) return parseJsonBody(bytes, bounds);
  share.charge(bytes.length * RECEIVING_MS_PER_BYTE);
  return await share.run(jsonTurns(bytes, bounds), signal);
}

/** Parses a body at once. */
export function parseJsonBody(bytes: Uint8Array, bounds: JsonBounds): unknown {
  const turns = outlineOf(bytes, bounds, Infinity);
  const outline = turns.next();
  if (outline.done !== true) throw new RangeError("a small body has one turn");
  // Unmatched brackets and quotes are left to JSON.parse to report.
  if (outline.value.problem !== undefined && outline.value !== UNMATCHED) throw refused(outline.value.problem);
  return parseText(decode(bytes, false));
}

/** Parses a body in turns. */
export function* jsonTurns(bytes: Buffer, bounds: JsonBounds, chunkBytes: number = SMALL_BYTES): Divisible<unknown> {
  // JSON.parse ignores it, too.
  const start = bytes.subarray(0, BYTE_ORDER_MARK.length).equals(BYTE_ORDER_MARK) ? BYTE_ORDER_MARK.length : 0;
  const body = bytes.subarray(start);
  const { problem, root } = yield* outlineOf(body, bounds, chunkBytes);
  if (problem !== undefined) throw refused(problem);
  // Nothing in it is large except, perhaps, white space.
  if (root === undefined) return parseText(decode(body, true));
  requireSpace(body, 0, root.start);
  requireSpace(body, root.end, body.length);
  return yield* build(body, root, chunkBytes);
}

/** Builds a value that is too large to be parsed at once: a text, or a list or object of parts. */
function* build(bytes: Buffer, outline: JsonOutline, chunkBytes: number): Divisible<unknown> {
  if (outline.kind === "text") return yield* buildText(bytes, outline, chunkBytes);
  const isList = outline.kind === "list";
  const list: unknown[] = [];
  const object: Record<string, unknown> = {};
  const large = outline.children.values();
  let child = large.next().value;
  const ends = [...outline.commas, outline.end - 1];
  let start = outline.start + 1;
  for (const end of ends) {
    if (child !== undefined && child.start < end) {
      const key = isList ? "" : keyOf(bytes, start, child.start);
      if (isList) requireSpace(bytes, start, child.start);
      requireSpace(bytes, child.end, end);
      const value = yield* build(bytes, child, chunkBytes);
      if (isList) list.push(value);
      else define(object, key, value);
      child = large.next().value;
    } else {
      const text = decode(bytes.subarray(start, end), true);
      if (text.trim() === "") throw refused(NOT_JSON);
      if (isList) for (const value of parseText(`[${text}]`) as readonly unknown[]) list.push(value);
      else for (const [key, value] of Object.entries(parseText(`{${text}}`) as object)) define(object, key, value);
    }
    start = end + 1;
    yield;
  }
  return isList ? list : object;
}

/** Builds a long text from chunks that do not cut a character or an escape in two. */
function* buildText(bytes: Buffer, { start, end }: JsonOutline, chunkBytes: number): Divisible<string> {
  const parts: string[] = [];
  for (let from = start + 1; from < end - 1;) {
    const to = Math.min(wholeEnd(bytes, from, from + chunkBytes), end - 1);
    parts.push(parseText(`"${decode(bytes.subarray(from, to), true)}"`) as string);
    from = to;
    yield;
  }
  return parts.join("");
}

/** The first index from `to` on that is inside no character and no escape; `from` is one. */
function wholeEnd(bytes: Uint8Array, from: number, to: number): number {
  let end = to;
  let last = to - 1;
  while (last >= from && to - last < UNICODE_ESCAPE_BYTES && bytes[last] !== BACKSLASH) last--;
  let first = last;
  while (first >= from && bytes[first] === BACKSLASH) first--;
  // Two backslashes are one that is escaped.
  if ((last - first) % 2 === 1) end = Math.max(to, last + (bytes[last + 1] === LETTER_U ? UNICODE_ESCAPE_BYTES : 2));
  while (end < bytes.length && ((bytes[end] as number) & CONTINUATION_MASK) === CONTINUATION) end++;
  return end;
}

const BACKSLASH = 0x5c;
const LETTER_U = 0x75;
const UNICODE_ESCAPE_BYTES = 6;
const CONTINUATION_MASK = 0xc0;
const CONTINUATION = 0x80;

/** The name of a field, in front of its value. */
function keyOf(bytes: Buffer, start: number, valueStart: number): string {
  const keys = Object.keys(parseText(`{${decode(bytes.subarray(start, valueStart), true)}0}`) as object);
  if (keys.length !== 1) throw refused(NOT_JSON);
  return keys[0];
}

/**
 * Sets a field, also if it is named like one of the prototype's; a repeated name keeps its first position, as with
 * JSON.parse.
 */
function define(object: Record<string, unknown>, key: string, value: unknown): void {
  Object.defineProperty(object, key, { value, writable: true, enumerable: true, configurable: true });
}

function requireSpace(bytes: Uint8Array, start: number, end: number): void {
  for (let at = start; at < end; at++) if (!isSpace(bytes[at] as number)) throw refused(NOT_JSON);
}

function isSpace(byte: number): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
}

function decode(bytes: Uint8Array, ignoreBOM: boolean): string {
  try {
    return (ignoreBOM ? PART_DECODER : BODY_DECODER).decode(bytes);
  } catch (cause) {
    throw refused("expected UTF-8, found bytes that are not", cause);
  }
}

function parseText(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch (cause) {
    throw refused(text === "" ? "expected a JSON object, found nothing" : NOT_JSON, cause);
  }
}

function refused(problem: string, cause?: unknown): RequestError {
  return new RequestError(`[body] ${problem}`, {
    status: 400,
    code: "invalid_body",
    ...(cause === undefined ? {} : { cause }),
  });
}

/** Throws if the body is compressed: its real size could not be bounded before decompressing it. */
export function checkEncoding(encoding: string | undefined): void {
  if (encoding === undefined || /^\s*(?:identity)?\s*$/i.test(encoding)) return;
  throw new RequestError(
    `[content-encoding] expected a body that is not compressed, found ${JSON.stringify(encoding.slice(0, MAX_SHOWN_CHARACTERS))}; send it without Content-Encoding`,
    {
      status: 415,
      code: "unsupported_media_type",
    },
  );
}
