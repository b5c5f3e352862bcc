// The class of each code point: all that pre-tokenizers need to know about a character. Invariant: one class each;
// white space (Unicode's White_Space) takes precedence over the general category, which is harmless because no letter,
// number, mark, punctuation or symbol is white space.

import { CLASS_RUNS } from "./unicode-table.js";

/** The character classes that pre-tokenizers distinguish. */
export const CharacterClass = {
  other: 0,
  number: 1,
  letter: 2,
  punctuation: 3,
  mark: 4,
  symbol: 5,
  whitespace: 6,
} as const;

const CODE_POINTS = 0x110000;
const RUN_LETTERS = "ONLPMSZ";
const RUN_BASE = 36;

let table: Uint8Array | undefined;

/** Classes indexed by code point. Built on first use: a megabyte that only a tokenizer needs. */
export function characterClasses(): Uint8Array {
  return (table ??= expandRuns());
}

function expandRuns(): Uint8Array {
  const classes = new Uint8Array(CODE_POINTS);
  let start = 0;
  for (const [, letter = "", length = ""] of CLASS_RUNS.matchAll(/([A-Z])([0-9a-z]*)/g)) {
    const end = start + (length === "" ? 1 : Number.parseInt(length, RUN_BASE));
    classes.fill(RUN_LETTERS.indexOf(letter), start, end);
    start = end;
  }
  return classes;
}
