// JSON strings with several constraints: patterns, formats, lengths. They are automata over the bytes inside the
// quotes, where every character has one spelling, so that the intersection of two automata is exactly the strings that
// satisfy both.

import { LruCache } from "../../lru.js";
import { GrammarError } from "../../errors.js";
import { Automaton } from "../automaton/automaton.js";
import { buildDfa, combinedDfa, commonClasses, DEAD, Dfa } from "../automaton/dfa.js";
import type { LengthLimits } from "../automaton/measure.js";
import { buildNetwork } from "../automaton/network-builder.js";
import { ruleFacts, weightOf } from "../automaton/rule-facts.js";
import { CharSet } from "../char-set.js";
import { automaton, type Expression, repeat, sequence, text } from "../expression.js";
import { inString } from "./json-rules.js";
import { GRAMMAR_LIMITS } from "../limits.js";
import { splitLookAheads } from "../notation/look-ahead.js";
import { regexExpression, type RegexOptions } from "../notation/regex.js";

/** Any text inside the quotes. */
const ANY_TEXT = repeat(inString(CharSet.all), 0, Infinity);
/** A single pattern is compiled as an expression if its automaton would be larger than this. */
const SMALL_AUTOMATON = 1024;
/** Expressions from this weight on certainly have a larger automaton, which is not tried. */
const LARGE_EXPRESSION = 2048;

/** The automaton of an expression without rules. */
export function dfaOf(expression: Expression, place: string, maxStates: number = GRAMMAR_LIMITS.automatonStates): Dfa {
  if (!ruleFacts(new Map()).ends(expression)) return NO_TEXT_DFA;
  const run = new Automaton(buildNetwork(new Map(), expression, { place }));
  return buildDfa(
    {
      classes: run.classes,
      classCount: run.classCount,
      start: run.start,
      key: (set) => set.id,
      next: (set, byteClass) => run.step(set, byteClass) ?? undefined,
      accepts: (set) => set.accepting,
    },
    place,
    maxStates,
  );
}

/** The strings that a pattern matches, inside the quotes. */
function patternExpression(pattern: string, place: string): Expression {
  return regexWithLooks(pattern, { place, characters: inString, around: ANY_TEXT });
}

/** A regular expression with look-aheads at its start. */
export function regexWithLooks(pattern: string, options: RegexOptions): Expression {
  const { rest, found, missing } = splitLookAheads(pattern);
  const whole = regexExpression(rest, options);
  if (found.length + missing.length === 0) return whole;
  const { place, characters } = options;
  const anywhere: RegexOptions = { ...options, around: repeat(characters(CharSet.all), 0, Infinity) };
  const ahead = (inside: string): Dfa => dfaOf(regexExpression(inside, anywhere), place);
  const both = found.reduce((dfa, inside) => combinedDfa(dfa, ahead(inside), "both", place), dfaOf(whole, place));
  return automaton(missing.reduce((dfa, inside) => combinedDfa(dfa, ahead(inside), "first only", place), both));
}

/** A JSON string, from what is between its quotes. */
export function quotedString(inside: Expression): Expression {
  return sequence(text('"'), inside, text('"'));
}

/** Formats and common patterns appear in many schemas. */
const knownPatterns = new LruCache<string, Dfa>({ maxEntries: 256 });

function patternDfa(pattern: string, place: string, maxStates?: number): Dfa {
  const known = knownPatterns.get(pattern);
  if (known !== undefined) return known;
  const dfa = dfaOf(patternExpression(pattern, place), place, maxStates);
  knownPatterns.set(pattern, dfa);
  return dfa;
}

/** A string with a single pattern. */
export function patternAlone(pattern: string, place: string): Expression {
  const expression = patternExpression(pattern, place);
  if (weightOf(expression) > LARGE_EXPRESSION) return expression;
  try {
    return automaton(patternDfa(pattern, place, SMALL_AUTOMATON));
  } catch (error) {
    if (error instanceof GrammarError && error.code === "GRAMMAR_LIMIT") return expression;
    throw error;
  }
}

/**
 * The strings that match every one of the patterns, as an automaton over the bytes between the quotes; expects at least
 * one pattern.
 */
export function allPatterns(patterns: readonly string[], place: string): Dfa {
  return patterns
    .map((pattern) => patternDfa(pattern, place))
    .reduce((one, other) => combinedDfa(one, other, "both", place));
}

let anyText: Dfa | undefined;

/** The automaton that accepts nothing. */
export const NO_TEXT_DFA = new Dfa(new Uint8Array(256), 1, new Int32Array(), new Uint8Array());

/** The automaton of all strings inside quotes; its first state is between two characters. */
export function anyTextDfa(): Dfa {
  return (anyText ??= dfaOf(ANY_TEXT, "string"));
}

const knownMeasured = new WeakMap<Dfa, Map<string, Expression>>();

/** The texts of an automaton within length limits; the first state of `characters` is between two characters. */
export function measured(dfa: Dfa, limits: LengthLimits, place: string, characters: Dfa = anyTextDfa()): Expression {
  if (limits.min === 0 && limits.max === Infinity) return automaton(dfa);
  let ofDfa = knownMeasured.get(dfa);
  if (ofDfa === undefined) knownMeasured.set(dfa, (ofDfa = new Map()));
  const key = `${limits.min} ${limits.max}`;
  let known = ofDfa.get(key);
  if (known === undefined) ofDfa.set(key, (known = measuredAnew(dfa, limits, place, characters)));
  return known;
}

function measuredAnew(dfa: Dfa, limits: LengthLimits, place: string, any: Dfa): Expression {
  const { classes, count, examples } = commonClasses([dfa.classes, any.classes]);
  // Separate states for each position in a character: the same text may follow a complete character and a part of one.
  const placed = buildDfa<readonly [number, number]>(
    {
      classes,
      classCount: count,
      start: [0, 0],
      key: ([state, where]) => state * any.size + where,
      next: ([state, where], byteClass) => {
        const byte = examples[byteClass] as number;
        const next = dfa.target(state, dfa.classes[byte] as number);
        return next === DEAD ? undefined : [next, any.target(where, any.classes[byte] as number)];
      },
      accepts: ([state]) => dfa.accepts(state),
      label: ([, where]) => (where === 0 ? 1 : 0),
    },
    place,
  );
  const boundaries = Array.from({ length: placed.size }, (_, state) => placed.label(state) === 1);
  return { kind: "measured", measured: { dfa: placed, boundaries, limits } };
}
