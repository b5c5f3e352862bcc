// Regular expressions: some that people write (colors, versions, dates, phones), and random ones over all that the
// documents name. Unbounded repetitions hold no others and begin with a character of their own, so that RegExp, which
// tries one way after another, judges in no time.

import type { Dice } from "../../support/dice.js";

/** With places in braces that are filled at random; `%` stands for a number. */
const WRITTEN = [
  "#([A-Fa-f0-9]{6}|[A-Fa-f0-9]{3})",
  "#[0-9a-f]{%}",
  "[0-9]*[0-9]x",
  "[a-z][a-z0-9]*(?:-[a-z0-9]+)*",
  "[A-Z]{%}-\\d{%}",
  "\\d{4}-\\d{2}-\\d{2}",
  "(?:0|[1-9]\\d*)\\.(?:0|[1-9]\\d*)\\.(?:0|[1-9]\\d*)(?:-[0-9A-Za-z-]+(?:\\.[0-9A-Za-z-]+)*)?(?:\\+[0-9A-Za-z-]+)?",
  "v?\\d+(?:\\.\\d+){0,%}",
  "\\+?[1-9]\\d{1,14}",
  "\\(?\\d{3}\\)?[ -]?\\d{3}-\\d{4}",
  "[A-Za-z_$][\\w$]*",
  "[a-f0-9]{8}(?:-[a-f0-9]{4}){3}-[a-f0-9]{12}",
  "[^\\s@]+@[^\\s@]+\\.[a-z]{2,4}",
  "(?:[01]\\d|2[0-3]):[0-5]\\d(?::[0-5]\\d)?",
  "(?:25[0-5]|2[0-4]\\d|1?\\d?\\d)(?:\\.(?:25[0-5]|2[0-4]\\d|1?\\d?\\d)){3}",
  "[A-Z]{2}\\d{2}[A-Z0-9]{%,9}",
  "https?://[\\w.-]+(?:/[\\w./-]*)?",
  "arn:aws:[a-z0-9-]+:[a-z0-9-]*:\\d{12}:.+",
  '[A-Za-z]:\\\\(?:[^\\\\/:*?"<>|]+\\\\)*',
  "(?<year>\\d{4})(?:W\\d{2})?",
  "-?(?:0|[1-9]\\d*)(?:\\.\\d+)?(?:[eE][+-]?\\d+)?",
  "\\$\\{[a-z]+\\}",
  "(?:yes|no|maybe)",
  "a{%}b{0,%}",
  "(?:ab){%,}c?",
  "[^a-z]{%}",
  ".{%}",
  ".*x",
  "\\S+ \\S+",
  "[\\u4e00-\\u9fff]{1,%}",
  "[à-ÿ]+|[a-z]+",
  "\\u{1F600}|[\\u{1F601}-\\u{1F64F}]{%}",
  "\\w+\\W\\w+",
  "[\\d.]+%?",
  "\\x41\\u0042[\\x43-\\x46]",
  "(?:a|ab|abc){1,%}",
  "[-a]+",
  "[a-]+",
  "[\\]\\\\^-]{%}",
  "a|",
  "(?:)",
  "\\cA?\\t*",
  "[\\s\\S]{%}",
  "[^]{0,%}",
  "(?:x{%}|y){%}",
  "[^\\d\\s]{%}",
  "\\0?a",
  "(a)(?:b)(?<c>c)+?d*?e??",
] as const;

const LITERALS = [
  "a",
  "b",
  "c",
  "ab",
  "0",
  "1",
  "-",
  "_",
  " ",
  "\\.",
  "\\/",
  "\\+",
  "é",
  "ö",
  "€",
  "日",
  "😀",
  "\\t",
  "\\n",
  '"',
  "\\\\",
  ":",
];
const CLASSES = [
  "[ab]",
  "[a-c]",
  "[^a]",
  "[0-9]",
  "\\d",
  "\\w",
  ".",
  "[a-c0-2_]",
  "[^\\w]",
  "\\s",
  "[é-ü]",
  "[^a-zé]",
  '["\\\\]',
  "[\\d-]",
  "\\D",
  "\\S",
  "[😀-😄]",
  "[\\u0080-\\u{10FFFF}]",
  "[^\\u0020-\\uffff]",
];
const BOUNDED = ["?", "{2}", "{0,2}", "{1,3}", "{3}", "??", "{0}", "{1}"];
const UNBOUNDED = ["*", "+", "{2,}", "*?", "+?", "{0,}"];

/** Without anchors. */
export function regexBody(dice: Dice): string {
  if (dice.below(2) === 0) return dice.pick(WRITTEN).replaceAll("%", () => String(1 + dice.below(4)));
  return alternatives(dice, 2, true);
}

/** As `pattern` of a schema has it: with both anchors, one or none, on each branch. */
export function anchored(dice: Dice, body: string): string {
  const start = dice.below(3) > 0 ? "^" : "";
  const end = dice.below(3) > 0 ? "$" : "";
  return dice.below(6) === 0 ? `${start}${alternatives(dice, 1, true)}|(?:${body})${end}` : `${start}(?:${body})${end}`;
}

function alternatives(dice: Dice, depth: number, unbounded: boolean): string {
  const count = dice.below(3) === 0 ? 2 + dice.below(2) : 1;
  return Array.from({ length: count }, () => sequence(dice, depth, unbounded && count === 1)).join("|");
}

function sequence(dice: Dice, depth: number, unbounded: boolean): string {
  return Array.from({ length: 1 + dice.below(4) }, () => quantified(dice, depth, unbounded)).join("");
}

function quantified(dice: Dice, depth: number, unbounded: boolean): string {
  const kind = dice.below(8);
  if (kind === 0 && depth > 0)
    return `(${dice.pick(["", "?:", "?<n>"])}${alternatives(dice, depth - 1, false)})${dice.below(2) === 0 ? dice.pick(BOUNDED) : ""}`.replaceAll(
      /\?<n>/g,
      "?:",
    );
  // The separator is in no class and in no literal.
  if (kind === 1 && depth > 0 && unbounded) return `(?:;${sequence(dice, depth - 1, false)})${dice.pick(UNBOUNDED)}`;
  const atom = dice.below(2) === 0 ? dice.pick(CLASSES) : single(dice.pick(LITERALS));
  if (kind === 2 && unbounded) return `${atom}${dice.pick(UNBOUNDED)}`;
  return kind < 5 ? `${atom}${dice.pick(BOUNDED)}` : atom;
}

function single(literal: string): string {
  return literal === "ab" ? "(?:ab)" : literal;
}

/** Characters that the expression speaks of, and some beside them: what short texts are made of. */
export function charactersOf(pattern: string, dice: Dice): readonly string[] {
  const spoken = [
    ...pattern
      .replaceAll(/\\u\{([0-9A-Fa-f]+)\}|\\u([0-9a-f]{4})|\\x([0-9a-f]{2})/g, (_, ...codes: string[]) =>
        String.fromCodePoint(Number.parseInt(codes.find((code) => code !== undefined) as string, 16)),
      )
      .replaceAll(/\\[dDwWsStnrfvxuc0]|[()[\]{}|*+?^$\\]|\{[\d,]*\}/g, ""),
  ];
  const around = ["a", "0", "Z", "-", " ", "é", "\n"];
  const digits = /\\d/.test(pattern) ? ["0", "7"] : [];
  const shuffled = [...new Set([...digits, ...spoken])].sort((one, other) => score(one) - score(other));
  return [...new Set([...shuffled.slice(0, 4), dice.pick(around)])];

  function score(character: string): number {
    return (character.codePointAt(0) as number) % 7;
  }
}
