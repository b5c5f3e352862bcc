// The input of encoding: one text, or segments of which some may contain special tokens and others are plain text. Only
// the search for special tokens sees segments; everything else sees one text, so their boundaries do not change how it
// is split.

import { refuseUnknownKeys, refuseValue } from "../options.js";

/** A part of a prompt. Text from a user, a tool or a file has `parseSpecial: false`. */
export interface TextSegment {
  readonly text: string;
  /** Whether the text of a special token becomes that token. */
  readonly parseSpecial: boolean;
}

/** How segments are encoded. */
export interface SegmentsOptions {
  /** Adds BOS and EOS as the file specifies. Default true. */
  readonly addSpecial?: boolean;
}

/** How a text is encoded. */
export interface EncodeOptions extends SegmentsOptions {
  /** Turns the text of special tokens in the input into these tokens. Default true. */
  readonly parseSpecial?: boolean;
}

/** The bytes to encode, and where special tokens may be parsed. */
export interface EncodeInput {
  readonly bytes: Buffer;
  /** The byte ranges in which special tokens are searched for: start, end, start, end … */
  readonly parsed: readonly number[];
}

const SEGMENT_KEYS = ["text", "parseSpecial"] as const satisfies readonly (keyof TextSegment)[];

/** The input of one text. */
export function wholeText(text: string, parseSpecial: boolean): EncodeInput {
  const bytes = Buffer.from(text, "utf8");
  return { bytes, parsed: parseSpecial && bytes.length > 0 ? [0, bytes.length] : [] };
}

/** The input of several segments as one text. */
export function joinSegments(segments: readonly TextSegment[]): EncodeInput {
  if (!Array.isArray(segments))
    refuseValue("tokenizer", "segments", "a list of segments, each with its text and parseSpecial", segments);
  const parts: Buffer[] = [];
  const parsed: number[] = [];
  let length = 0;
  for (const segment of segments) {
    refuseUnknownKeys("tokenizer", segment, SEGMENT_KEYS);
    if (typeof segment.text !== "string") refuseValue("tokenizer", "text", "a string in each segment", segment.text);
    if (typeof segment.parseSpecial !== "boolean")
      refuseValue("tokenizer", "parseSpecial", "true or false in each segment", segment.parseSpecial);
    const bytes = Buffer.from(segment.text, "utf8");
    if (bytes.length === 0) continue;
    parts.push(bytes);
    if (segment.parseSpecial) {
      // A special token may span two adjacent parsed segments.
      if (parsed.at(-1) === length) parsed.pop();
      else parsed.push(length);
      parsed.push(length + bytes.length);
    }
    length += bytes.length;
  }
  return { bytes: Buffer.concat(parts, length), parsed };
}
