// Seeded random text that tokenizers find awkward: scripts, combining marks, emoji, runs of white space, digits,
// contractions, special tokens written out. A failing case prints its seed, and the seed gives the text again.

import { Dice } from "../support/dice.js";

const WORDS =
  "the of and Hello WORLD don't I'LL we've it's He'd y'all 'Re tEST iPhone camelCaseWord x the_quick naïve Äpfel".split(
    " ",
  );
const SPACES = [
  " ",
  "  ",
  "   ",
  "\n",
  "\n\n",
  "\r\n",
  "\t",
  " \n ",
  "\u00a0",
  "\u3000",
  "\u2003",
  "\u2028",
  "\u0085",
  "\v\f",
  "\u200b",
  "\ufeff",
];
const MARKS = [
  "'",
  "''",
  "'s",
  "'S",
  "'ll",
  "'LL",
  " '",
  "!",
  "?!",
  "...",
  "—",
  "``",
  "~",
  "$",
  "+",
  "<",
  "=",
  ">",
  "^",
  "|",
  "_",
  "-",
  "/",
  "\\",
  "(",
  ")",
  "[",
  "]",
  "{",
  "}",
  '"',
  "#",
  "@",
  "%",
  "&",
  "*",
  ",",
  ":",
  ";",
  "。",
  "，",
  "！",
  "「",
  "…",
  "،",
  "।",
  "€",
  "±",
  "©",
];
/** Ranges of scripts, symbols and unassigned places. */
const RANGES: readonly (readonly [number, number])[] = [
  [0x00, 0x7f],
  [0x80, 0xff],
  [0x100, 0x24f],
  [0x250, 0x2ff],
  [0x300, 0x36f],
  [0x370, 0x3ff],
  [0x400, 0x4ff],
  [0x530, 0x5ff],
  [0x600, 0x6ff],
  [0x900, 0x97f],
  [0x980, 0x9ff],
  [0xe00, 0xe7f],
  [0xe80, 0xeff],
  [0x1000, 0x109f],
  [0x10a0, 0x10ff],
  [0x1100, 0x11ff],
  [0x1780, 0x17ff],
  [0x1e00, 0x1fff],
  [0x2000, 0x206f],
  [0x2070, 0x20cf],
  [0x20d0, 0x20ff],
  [0x2100, 0x218f],
  [0x2190, 0x2bff],
  [0x2e80, 0x2fff],
  [0x3000, 0x30ff],
  [0x3100, 0x33ff],
  [0x3400, 0x4dbf],
  [0x4e00, 0x9fff],
  [0xa000, 0xabff],
  [0xac00, 0xd7ff],
  [0xe000, 0xf8ff],
  [0xf900, 0xffff],
  [0x10000, 0x10fff],
  [0x11000, 0x118ff],
  [0x16a00, 0x16fff],
  [0x1d000, 0x1d7ff],
  [0x1e900, 0x1e95f],
  [0x1f000, 0x1faff],
  [0x20000, 0x323af],
  [0xe0000, 0xe01ef],
];
const EMOJI = ["🚀", "😶‍🌫️", "🦙", "👨‍👩‍👧", "✅", "🇩🇪", "👍🏽"];
const MOST_FRAGMENTS = 24;

export function awkwardText(seed: number, specials: readonly string[]): string {
  const dice = new Dice(seed);
  const fragments: string[] = [];
  for (let count = 1 + dice.below(MOST_FRAGMENTS); count > 0; count--) fragments.push(fragment(dice, specials));
  return fragments.join("");
}

function fragment(dice: Dice, specials: readonly string[]): string {
  switch (dice.below(12)) {
    case 0:
    case 1:
    case 2:
      return (dice.below(2) === 0 ? " " : "") + dice.pick(WORDS);
    case 3:
    case 4:
      return dice.pick(SPACES);
    case 5:
      return dice.pick(MARKS);
    case 6:
      return String(dice.below(10 ** (1 + dice.below(9))));
    case 7:
      return dice.pick(EMOJI);
    case 8:
      return dice.pick([...SPACES, ...MARKS]).repeat(1 + dice.below(dice.below(40) === 0 ? 1500 : 9));
    case 9:
      return specials.length > 0 && dice.below(3) === 0 ? dice.pick(specials) : "x";
    default: {
      const [first, last] = dice.pick(RANGES);
      let run = "";
      for (let length = 1 + dice.below(5); length > 0; length--)
        run += String.fromCodePoint(first + dice.below(last - first + 1));
      return run;
    }
  }
}
