// The expressions of a grammar's rules, whether it was a schema, a regular expression or a grammar.

import type { Dfa } from "./automaton/dfa.js";
import type { MeasuredDfa } from "./automaton/measure.js";
import { CharSet } from "./char-set.js";

/** An expression over characters, rules and automata. */
export type Expression =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "set"; readonly set: CharSet }
  | { readonly kind: "rule"; readonly name: string }
  | { readonly kind: "sequence"; readonly parts: readonly Expression[] }
  /** Without options, it matches nothing. */
  | { readonly kind: "choice"; readonly options: readonly Expression[] }
  | { readonly kind: "repeat"; readonly part: Expression; readonly min: number; readonly max: number }
  | { readonly kind: "control"; readonly token: number }
  /** A regular language, as an automaton. */
  | { readonly kind: "automaton"; readonly dfa: Dfa }
  /** An automaton with length limits. */
  | { readonly kind: "measured"; readonly measured: MeasuredDfa };

/** Matches the empty text only. */
export const EMPTY: Expression = { kind: "text", text: "" };
/** Matches no text. */
export const NOTHING: Expression = { kind: "choice", options: [] };

/** Matches a literal text; lone surrogates become U+FFFD, because UTF-8 cannot encode them. */
export function text(value: string): Expression {
  // A lone surrogate cannot be encoded in UTF-8.
  return value === "" ? EMPTY : { kind: "text", text: value.replaceAll(/\p{Surrogate}/gu, "\ufffd") };
}

/** Matches one character of a set. */
export function set(value: CharSet): Expression {
  return value.empty ? NOTHING : { kind: "set", set: value };
}

/** Matches the parts one after the other; nested sequences are flattened. */
export function sequence(...parts: readonly Expression[]): Expression {
  if (parts.includes(NOTHING)) return NOTHING;
  const flat = parts
    .flatMap((part) => (part.kind === "sequence" ? part.parts : [part]))
    .filter((part) => part !== EMPTY);
  if (flat.length === 0) return EMPTY;
  return flat.length === 1 ? flat[0] : { kind: "sequence", parts: flat };
}

/** Matches any one of the options; nested choices are flattened. */
export function choice(...options: readonly Expression[]): Expression {
  const flat = options.flatMap((option) => (option.kind === "choice" ? option.options : [option]));
  if (flat.length === 0) return NOTHING;
  return flat.length === 1 ? flat[0] : { kind: "choice", options: flat };
}

/** Matches the part once or not at all. */
export function optional(part: Expression): Expression {
  return repeat(part, 0, 1);
}

/** A repetition; `max` may be Infinity. */
export function repeat(part: Expression, min: number, max: number): Expression {
  if (max === 0 || part === EMPTY) return EMPTY;
  if (part === NOTHING) return min === 0 ? EMPTY : NOTHING;
  if (min === 1 && max === 1) return part;
  if (part.kind === "repeat" && isRun(part, min)) return repeat(part.part, part.min * min, part.max * max);
  return { kind: "repeat", part, min, max };
}

/** Whether repeating a repetition gives every number between the least and the most. */
function isRun(part: Expression & { readonly kind: "repeat" }, min: number): boolean {
  return part.min <= 1 || (min > 0 && (min + 1) * part.min <= min * part.max + 1);
}

/** Matches the texts that a DFA accepts. */
export function automaton(dfa: Dfa): Expression {
  return dfa.empty ? NOTHING : { kind: "automaton", dfa };
}

/** Matches one ASCII digit. */
export const DIGIT = set(CharSet.of([0x30, 0x39]));
