// Strings of a schema: patterns, formats and lengths together, except the strings that it excludes.

import { combinedDfa, type Dfa } from "../automaton/dfa.js";
import type { LengthLimits } from "../automaton/measure.js";
import { automaton, choice, EMPTY, type Expression, NOTHING, repeat, sequence, text } from "../expression.js";
import { CharSet } from "../char-set.js";
import { inString, type JsonRules } from "./json-rules.js";
import { allPatterns, anyTextDfa, dfaOf, measured, patternAlone, quotedString } from "./string-language.js";

/** Everything that a schema requires of a string. */
export interface StringDemands {
  readonly patterns: readonly string[];
  readonly limits: LengthLimits;
  /** Only these values, if there is a list. */
  readonly listed?: readonly string[] | undefined;
  /** Values that are excluded. */
  readonly excluded?: readonly StringDemands[] | undefined;
}

/** Characters of patterns that cost as much as one part of a schema. */
const PATTERN_STEP_CHARACTERS = 4;

/** The JSON strings that meet all demands; equal demands share one rule. */
export function stringExpression(json: JsonRules, demands: StringDemands, place: string): Expression {
  const { patterns, limits, excluded = [] } = demands;
  if (patterns.length === 0 && excluded.length === 0) return json.limitedString(limits);
  const { raw } = json.dialect;
  if (raw !== undefined) return sequence(...raw.quote, raw.inside(demands), ...raw.quote);
  return json.once(
    "pattern",
    JSON.stringify(demands, (_, value) => (value === Infinity ? "infinite" : value)),
    () => {
      for (const pattern of patterns) json.budget.step(place, Math.ceil(pattern.length / PATTERN_STEP_CHARACTERS));
      if (excluded.length > 0)
        return quotedString(
          automaton(
            excluded
              .map((other) => stringDfa(other, place))
              .reduce((left, other) => combinedDfa(left, other, "first only", place), stringDfa(demands, place)),
          ),
        );
      const unlimited = limits.min === 0 && limits.max === Infinity;
      if (patterns.length === 1 && unlimited) return quotedString(patternAlone(patterns[0] as string, place));
      const dfa = allPatterns(patterns, place);
      if (dfa.empty) return NOTHING;
      return quotedString(unlimited ? automaton(dfa) : measured(dfa, limits, place));
    },
  );
}

/** The automaton of the strings inside the quotes, every character in one spelling. */
export function stringDfa({ patterns, limits, listed }: StringDemands, place: string): Dfa {
  const parts: Dfa[] = [];
  if (listed !== undefined)
    parts.push(
      dfaOf(choice(...listed.map((value) => (value === "" ? EMPTY : text(JSON.stringify(value).slice(1, -1))))), place),
    );
  if (patterns.length > 0) parts.push(allPatterns(patterns, place));
  if (limits.min > 0 || limits.max < Infinity)
    parts.push(dfaOf(repeat(inString(CharSet.all), limits.min, limits.max), place));
  return parts.length === 0 ? anyTextDfa() : parts.reduce((one, other) => combinedDfa(one, other, "both", place));
}
