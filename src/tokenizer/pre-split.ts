// Runs a pre-tokenizer's splits over a text, each over the segments that the one before it produced. Invariants: a
// split only cuts, it never drops or joins; a pattern sees its own segment only, so `$` and lookahead end there; text
// that a pattern does not match becomes a segment of its own. No pattern matches the empty string.

import { CharacterClass } from "./character-class.js";
import type { Split } from "./pre-tokenizers.js";
import { COLLAPSED_BASE, type SplitText } from "./split-text.js";
import {
  splitDigitGroups,
  splitGpt2,
  splitKimi,
  splitLines,
  splitThousands,
  splitWords,
  type Emit,
} from "./word-splits.js";

type SegmentSplitter = (text: SplitText, start: number, end: number, emit: Emit) => void;

/**
 * The longest text given to a regular expression at once, because its engine's stack grows with the length of a match.
 * A longer word may be cut; no specification says how such words split, and llama.cpp itself overflows on them.
 */
const MATCHED_UNITS = 2 ** 19;

/** Each category as the content of a regular expression's class: its non-ASCII stand-in, then its ASCII members. */
const COLLAPSED_CATEGORIES: Readonly<Record<string, string>> = {
  "\\p{N}": standIn(CharacterClass.number) + "0-9",
  "\\p{L}": standIn(CharacterClass.letter) + "A-Za-z",
  "\\p{P}": standIn(CharacterClass.punctuation) + "!-#%-*,-\\/:;?@\\[-\\]_\\{\\}",
  "\\p{M}": standIn(CharacterClass.mark),
  "\\p{S}": standIn(CharacterClass.symbol) + "\\$+<->\\^`|~",
};

function standIn(kind: number): string {
  return `\\x${(COLLAPSED_BASE + kind).toString(16)}`;
}

/** Splits a text into words by a pre-tokenizer's rules. */
export class PreSplitter {
  readonly #splitters: readonly SegmentSplitter[];

  constructor(splits: readonly Split[]) {
    this.#splitters = splits.map(compile);
  }

  /** The end of each word of the text, in code points. */
  split(text: SplitText): readonly number[] {
    let ends: number[] = [text.length];
    for (const splitter of this.#splitters) {
      const next: number[] = [];
      let start = 0;
      for (const end of ends) {
        splitter(text, start, end, (position) => next.push(position));
        start = end;
      }
      ends = next;
    }
    return ends;
  }
}

function compile(split: Split): SegmentSplitter {
  switch (split.kind) {
    case "gpt2":
      return splitGpt2;
    case "words":
      return (text, start, end, emit) => splitWords(text, start, end, split, emit);
    case "kimi":
      return splitKimi;
    case "digitGroups":
      return splitDigitGroups;
    case "thousands":
      return splitThousands;
    case "lines":
      return splitLines;
    case "collapsed":
      return collapsedSplitter(new RegExp(expandCategories(split.pattern), "g"));
    case "wide":
      return wideSplitter(new RegExp(split.pattern, "gu"));
    default:
      split satisfies never;
      throw new TypeError("unknown split");
  }
}

/** Replaces `\p{…}` by the collapsed alphabet: inside brackets by its members, outside by a class. */
function expandCategories(pattern: string): string {
  let inside = false;
  return pattern.replace(/\\p\{[NLPMS]\}|\\.|[[\]]/g, (part) => {
    if (part === "[") inside = true;
    else if (part === "]") inside = false;
    const members = COLLAPSED_CATEGORIES[part];
    if (members === undefined) return part;
    return inside ? members : `[${members}]`;
  });
}

function collapsedSplitter(pattern: RegExp): SegmentSplitter {
  return (text, start, end, emit) => {
    const segment = start === 0 && end === text.length ? text.collapsed : text.collapsed.slice(start, end);
    cutMatches(pattern, segment, (cut) => emit(start + cut));
  };
}

/** Splits by the text itself. It carries its position in the UTF-16 string along, so segments must come in order. */
function wideSplitter(pattern: RegExp): SegmentSplitter {
  let current: SplitText | undefined;
  let unit = 0;
  return (text, start, end, emit) => {
    if (current !== text || start === 0) {
      current = text;
      unit = 0;
    }
    const segmentStart = unit;
    for (let index = start; index < end; index++) unit += utf16Units(text.codePoints[index] as number);
    const segment = text.wide.slice(segmentStart, unit);
    let position = start;
    let units = 0;
    cutMatches(pattern, segment, (cut) => {
      while (units < cut) units += utf16Units(text.codePoints[position++] as number);
      emit(position);
    });
    if (end === text.length) current = undefined;
  };
}

function utf16Units(codePoint: number): number {
  return codePoint > 0xffff ? 2 : 1;
}

/** Cuts before and after every match, and at the end. */
function cutMatches(pattern: RegExp, segment: string, cut: (position: number) => void): void {
  let base = 0;
  while (segment.length - base > MATCHED_UNITS) base = cutWindow(pattern, segment, base, cut);
  const rest = base === 0 ? segment : segment.slice(base);
  let last = 0;
  pattern.lastIndex = 0;
  for (let match = pattern.exec(rest); match !== null; match = pattern.exec(rest)) {
    if (match.index > last) cut(base + match.index);
    last = match.index + match[0].length;
    cut(base + last);
  }
  if (last < rest.length) cut(segment.length);
}

/**
 * Splits one window of a huge segment and returns where the next one starts. A match that reaches the window's end is
 * left to the next.
 */
function cutWindow(pattern: RegExp, segment: string, base: number, cut: (position: number) => void): number {
  const window = segment.slice(
    base,
    base + MATCHED_UNITS - (isHighSurrogate(segment, base + MATCHED_UNITS - 1) ? 1 : 0),
  );
  let last = 0;
  pattern.lastIndex = 0;
  for (let match = pattern.exec(window); match !== null; match = pattern.exec(window)) {
    const end = match.index + match[0].length;
    if (end === window.length) break;
    if (match.index > last) cut(base + match.index);
    cut(base + end);
    last = end;
  }
  if (last > 0) return base + last;
  cut(base + window.length);
  return base + window.length;
}

function isHighSurrogate(text: string, index: number): boolean {
  return (text.charCodeAt(index) & 0xfc00) === 0xd800;
}
