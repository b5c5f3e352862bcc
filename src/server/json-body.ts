// A request's bytes to JSON. Invariants: bytes that are not UTF-8 are refused, not patched; depth and number of values
// are counted before anything is built of them, in one pass and without recursion; an answer for every input.

import { RequestError } from "./request-error.js";

export interface JsonBounds {
  readonly depth: number;
  readonly values: number;
}

const MAX_SHOWN_CHARACTERS = 64;
const QUOTE = 0x22;
const COMMA = 0x2c;
const BACKSLASH = 0x5c;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;

export function parseJsonBody(bytes: Uint8Array, bounds: JsonBounds): unknown {
  checkBounds(bytes, bounds);
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch (cause) {
    throw refused("expected UTF-8, found bytes that are not", cause);
  }
  try {
    return JSON.parse(text) as unknown;
  } catch (cause) {
    throw refused(text === "" ? "expected a JSON object, found nothing" : "expected a JSON object, found text that is not JSON", cause);
  }
}

/** Counts brackets and commas outside of strings; whether they match is JSON.parse's to say. */
function checkBounds(bytes: Uint8Array, bounds: JsonBounds): void {
  let depth = 0;
  let values = 1;
  for (let at = 0; at < bytes.length; at++) {
    switch (bytes[at]) {
      case QUOTE:
        at = endOfString(bytes, at);
        break;
      case OPEN_BRACKET:
      case OPEN_BRACE:
        values++;
        if (++depth > bounds.depth) throw refused(`expected at most ${bounds.depth} levels of lists and objects, found more`);
        break;
      case CLOSE_BRACKET:
      case CLOSE_BRACE:
        depth--;
        break;
      case COMMA:
        values++;
        break;
      default:
    }
    if (values > bounds.values) throw refused(`expected at most ${bounds.values} values, found more`);
  }
}

/** Where the string that opens at `start` closes, or the end of the bytes. */
function endOfString(bytes: Uint8Array, start: number): number {
  for (let at = start + 1; at < bytes.length; at++) {
    const byte = bytes[at];
    if (byte === QUOTE) return at;
    if (byte === BACKSLASH) at++;
  }
  return bytes.length;
}

function refused(problem: string, cause?: unknown): RequestError {
  return new RequestError(`[body] ${problem}`, { status: 400, code: "invalid_body", ...(cause === undefined ? {} : { cause }) });
}

/** Throws if the body is compressed: its real size could not be bounded before decompressing it. */
export function checkEncoding(encoding: string | undefined): void {
  if (encoding === undefined || /^\s*(?:identity)?\s*$/i.test(encoding)) return;
  throw new RequestError(`[content-encoding] expected a body that is not compressed, found ${JSON.stringify(encoding.slice(0, MAX_SHOWN_CHARACTERS))}; send it without Content-Encoding`, {
    status: 415,
    code: "unsupported_media_type",
  });
}
