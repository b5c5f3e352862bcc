// The pre-tokenizers that llama.cpp implements by hand instead of by a regular expression, because most models use
// them: GPT-2, the Llama-3 and Qwen family, Kimi-K2, digit groups and lines. Each takes a segment [start, end) and
// reports where its words end. Each documents its pattern; \p{…} are character classes.

import { CharacterClass } from "./character-class.js";
import type { SplitText } from "./split-text.js";

/** Called with the end of each word. */
export type Emit = (end: number) => void;

const { number: NUMBER, letter: LETTER, mark: MARK, whitespace: WHITESPACE } = CharacterClass;
const APOSTROPHE = 0x27;
const SPACE = 0x20;
const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;
const LOWER_CASE_BIT = 0x20;
const DIGIT_GROUP = 3;
const LARGEST_SPACES = 512;

/** `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+` */
export function splitGpt2(text: SplitText, start: number, end: number, emit: Emit): void {
  const { codePoints, classes } = text;
  for (let position = start; position < end;) {
    const contraction = contractionLength(codePoints, position, end, false);
    if (contraction > 0) {
      emit((position += contraction));
      continue;
    }
    const first = codePoints[position] === SPACE ? position + 1 : position;
    if (first === end || classes[first] === WHITESPACE) {
      emit((position = whitespaceEnd(classes, position, end)));
      continue;
    }
    const kind = wordKind(classes[first] as number);
    position = first + 1;
    while (position < end && wordKind(classes[position] as number) === kind) position++;
    emit(position);
  }
}

/** The differences between the pre-tokenizers of the Llama-3 and Qwen family. */
export interface WordRules {
  /** `\p{N}{1,maxDigits}` */
  readonly maxDigits: number;
  /** Whether `\p{M}` counts as a letter. */
  readonly marksAreLetters: boolean;
  /**
   * Whether white space without a line break is cut into runs of 512, 256 and so on down, instead of being one word.
   */
  readonly halvesSpaces: boolean;
}

/**
 * `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,n}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
 */
export function splitWords(text: SplitText, start: number, end: number, rules: WordRules, emit: Emit): void {
  const { codePoints, classes } = text;
  const isLetter = (at: number): boolean =>
    at < end && (classes[at] === LETTER || (rules.marksAreLetters && classes[at] === MARK));
  for (let position = start; position < end;) {
    const contraction = contractionLength(codePoints, position, end, true);
    if (contraction > 0) {
      emit((position += contraction));
      continue;
    }
    const kind = classes[position] as number;
    if (kind === NUMBER) {
      emit((position = digitsEnd(classes, position, end, rules.maxDigits)));
      continue;
    }
    if (!isLineBreak(codePoints[position] as number) && (isLetter(position) || isLetter(position + 1))) {
      position++;
      while (isLetter(position)) position++;
      emit(position);
      continue;
    }
    const next = punctuationOrSpaceEnd(text, position, end, isLetter);
    if (rules.halvesSpaces && classes[next - 1] === WHITESPACE && !isLineBreak(codePoints[next - 1] as number)) {
      for (let size = LARGEST_SPACES; position < next; emit((position += size)))
        while (size > next - position) size >>= 1;
    } else emit((position = next));
  }
}

/**
 * Kimi-K2: runs of Han on their own; other letters with an optional leading character and an optional contraction; then
 * numbers, punctuation and white space as in Llama-3.
 */
export function splitKimi(text: SplitText, start: number, end: number, emit: Emit): void {
  const { codePoints, classes } = text;
  const isLetter = (at: number): boolean => at < end && classes[at] === LETTER;
  const isPlainLetter = (at: number): boolean => isLetter(at) && !isHan(codePoints[at] as number);
  for (let position = start; position < end;) {
    const codePoint = codePoints[position] as number;
    const kind = classes[position] as number;
    if (isHan(codePoint)) {
      while (position < end && isHan(codePoints[position] as number)) position++;
      emit(position);
      continue;
    }
    const mayLead = !isLineBreak(codePoint) && kind !== LETTER && kind !== NUMBER;
    if (isPlainLetter(position) || (mayLead && isPlainLetter(position + 1))) {
      position++;
      while (isPlainLetter(position)) position++;
      emit((position += contractionLength(codePoints, position, end, true)));
      continue;
    }
    if (kind === NUMBER) {
      emit((position = digitsEnd(classes, position, end, DIGIT_GROUP)));
      continue;
    }
    emit((position = punctuationOrSpaceEnd(text, position, end, isLetter)));
  }
}

/** Cuts runs of numbers into threes from the right, `1234567` as `1 234 567`; everything else stays whole. */
export function splitDigitGroups(text: SplitText, start: number, end: number, emit: Emit): void {
  const { classes } = text;
  for (let position = start; position < end;) {
    const runStart = position;
    while (position < end && classes[position] === NUMBER) position++;
    const first = (position - runStart) % DIGIT_GROUP || DIGIT_GROUP;
    for (let cut = runStart + first; cut <= position; cut += DIGIT_GROUP) emit(cut);
    const restStart = position;
    while (position < end && classes[position] !== NUMBER) position++;
    // The following number run is joined to this text's first group: the cut falls only inside and after numbers.
    if (position > restStart && position === end) emit(position);
  }
}

/**
 * `(?=(\d{3})+(?!\d))`: cuts before every third ASCII digit from the right of a run. A loop, because the pattern would
 * read to the end of the run from each of its digits.
 */
export function splitThousands(text: SplitText, start: number, end: number, emit: Emit): void {
  const { codePoints } = text;
  const isDigit = (at: number): boolean =>
    at < end && (codePoints[at] as number) >= 0x30 && (codePoints[at] as number) <= 0x39;
  for (let position = start; position < end; position++) {
    const runStart = position;
    while (isDigit(position)) position++;
    for (let cut = runStart + ((position - runStart) % DIGIT_GROUP); cut < position; cut += DIGIT_GROUP)
      if (cut > start) emit(cut);
  }
  emit(end);
}

/** `[^\n]+|[\n]+` */
export function splitLines(text: SplitText, start: number, end: number, emit: Emit): void {
  const { codePoints } = text;
  for (let position = start; position < end;) {
    const breaks = codePoints[position] === LINE_FEED;
    while (position < end && (codePoints[position] === LINE_FEED) === breaks) position++;
    emit(position);
  }
}

function wordKind(kind: number): number {
  return kind === LETTER || kind === NUMBER || kind === WHITESPACE ? kind : CharacterClass.other;
}

function isLineBreak(codePoint: number): boolean {
  return codePoint === LINE_FEED || codePoint === CARRIAGE_RETURN;
}

/** The length of `'s`, `'re` and the like at this position, or 0. */
function contractionLength(codePoints: Uint32Array, position: number, end: number, anyCase: boolean): number {
  if (position + 1 >= end || codePoints[position] !== APOSTROPHE) return 0;
  const letterAt = (at: number): string => {
    const codePoint = codePoints[at] as number;
    if (codePoint > 0x7f) return "";
    return String.fromCharCode(
      anyCase && codePoint >= 0x41 && codePoint <= 0x5a ? codePoint | LOWER_CASE_BIT : codePoint,
    );
  };
  const first = letterAt(position + 1);
  if (first !== "" && "stmd".includes(first)) return 2;
  if (position + 2 >= end) return 0;
  const both = first + letterAt(position + 2);
  return both === "re" || both === "ve" || both === "ll" ? 3 : 0;
}

function digitsEnd(classes: Uint8Array, position: number, end: number, maxDigits: number): number {
  const limit = Math.min(end, position + maxDigits);
  while (position < limit && classes[position] === NUMBER) position++;
  return position;
}

/** The end of ` ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+` at a position where no word starts. */
function punctuationOrSpaceEnd(
  text: SplitText,
  position: number,
  end: number,
  isLetter: (at: number) => boolean,
): number {
  const { codePoints, classes } = text;
  const isPunctuation = (at: number): boolean =>
    at < end && classes[at] !== WHITESPACE && classes[at] !== NUMBER && !isLetter(at);
  let at = codePoints[position] === SPACE ? position + 1 : position;
  if (isPunctuation(at)) {
    while (isPunctuation(at)) at++;
    while (at < end && isLineBreak(codePoints[at] as number)) at++;
    return at;
  }
  let lastBreak = -1;
  for (at = position; at < end && classes[at] === WHITESPACE; at++)
    if (isLineBreak(codePoints[at] as number)) lastBreak = at;
  return lastBreak >= 0 ? lastBreak + 1 : whitespaceEnd(classes, position, end);
}

/** `\s+(?!\S)|\s+`: a run of white space leaves its last character to the word that follows. */
function whitespaceEnd(classes: Uint8Array, position: number, end: number): number {
  let at = position;
  while (at < end && classes[at] === WHITESPACE) at++;
  return at < end && at - position > 1 ? at - 1 : at;
}

/** Whether llama.cpp treats a character as Han; its ranges are not those of Unicode's script of that name. */
function isHan(codePoint: number): boolean {
  if (codePoint < 0x3400) return false;
  if (codePoint <= 0xfaff)
    return codePoint <= 0x4dbf || (codePoint >= 0x4e00 && codePoint <= 0x9fff) || codePoint >= 0xf900;
  if (codePoint < 0x20000) return false;
  return (
    codePoint <= 0x2a6df ||
    (codePoint >= 0x2a700 && codePoint <= 0x2ebef) ||
    (codePoint >= 0x2f800 && codePoint <= 0x2fa1f)
  );
}
