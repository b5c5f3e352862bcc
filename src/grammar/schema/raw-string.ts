// Strings that are written as they are, without quotes and escapes, up to a mark that ends them: all texts that do not
// contain the mark, and that satisfy patterns, lengths and exclusions. Invariant: automata over the text's own bytes, so
// that they must not be combined with those of JSON strings (string-language.ts).

import { LruCache } from "../../lru.js";
import { combinedDfa, type Dfa } from "../automaton/dfa.js";
import { CharSet } from "../char-set.js";
import { choice, type Expression, NOTHING, repeat, sequence, set, text } from "../expression.js";
import type { StringDemands } from "./string.js";
import { dfaOf, measured, regexWithLooks } from "./string-language.js";

const ANY = repeat(set(CharSet.all), 0, Infinity);
const MAX_KNOWN = 64;

let anyRaw: Dfa | undefined;
const knownTexts = new LruCache<string, Dfa>({ maxEntries: MAX_KNOWN });

/** All texts; the first state is between two characters. */
function anyRawDfa(): Dfa {
  return (anyRaw ??= dfaOf(ANY, "string"));
}

/** All texts without the mark, if the mark is text; a control token cannot be part of a text. */
function textsWithout(mark: string | undefined, place: string): Dfa {
  if (mark === undefined || mark === "") return anyRawDfa();
  let known = knownTexts.get(mark);
  if (known === undefined)
    knownTexts.set(
      mark,
      (known = combinedDfa(anyRawDfa(), dfaOf(sequence(ANY, text(mark), ANY), place), "first only", place)),
    );
  return known;
}

/** The strings that meet all demands and do not contain the mark. */
export function rawString(mark: string | undefined, demands: StringDemands, place: string): Expression {
  const { limits, excluded = [] } = demands;
  if (limits.min > limits.max) return NOTHING;
  let dfa = combinedOf(textsWithout(mark, place), demands, place);
  for (const other of excluded) dfa = combinedDfa(dfa, excludedDfa(other, place), "first only", place);
  return dfa.empty ? NOTHING : measured(dfa, limits, place, anyRawDfa());
}

function combinedOf(all: Dfa, { patterns }: StringDemands, place: string): Dfa {
  return patterns
    .map((pattern) => dfaOf(regexWithLooks(pattern, { place, characters: set, around: ANY }), place))
    .reduce((one, other) => combinedDfa(one, other, "both", place), all);
}

function excludedDfa(demands: StringDemands, place: string): Dfa {
  const { limits, listed } = demands;
  let dfa = combinedOf(anyRawDfa(), demands, place);
  if (listed !== undefined)
    dfa = combinedDfa(dfa, dfaOf(choice(...listed.map((value) => text(value))), place), "both", place);
  if (limits.min > 0 || limits.max < Infinity)
    dfa = combinedDfa(dfa, dfaOf(repeat(set(CharSet.all), limits.min, limits.max), place), "both", place);
  return dfa;
}
