// How much of a grammar a request may ask for. Grammars come from clients, and all of them is made into memory and time
// of a thread; what these limits let through, that thread's own limits bound.

import { GrammarError } from "../errors.js";

export const GRAMMAR_LIMITS = {
  /** Of a schema: objects, lists and values in it, and characters of its texts. Larger ones come from generators gone astray. */
  schemaNodes: 20_000,
  schemaCharacters: 262_144,
  /** Of a schema's own nesting. */
  schemaDepth: 64,
  /** Merging `allOf` with `anyOf` multiplies; what comes of one place. */
  schemaAlternatives: 256,
  /** Of all schemas of a request: parts that are looked at, and what is made of numbers and names. More would print too much. */
  schemaSteps: 65_536,
  /** Of the same: keywords, properties, values and every 8 characters of texts that merging goes over, some 30 ns each. */
  mergedKeywords: 1_000_000,
  regexCharacters: 4096,
  grammarCharacters: 65_536,
  /** Of groups in a regular expression or grammar, which are read by recursion. */
  groupDepth: 48,
  /** Of a counted repetition. More than this is more than a context holds, or a mistake. */
  repetitions: 65_536,
  /** Of a compiled grammar. A state is some 100 bytes, and a microsecond to make. */
  networkStates: 200_000,
  /** Of one automaton that patterns, names or numbers are combined by: each has a row of edges. */
  automatonStates: 8192,
  /** Rules that are active at one place of a text: more make every step slow. */
  activeItems: 20_000,
  /** Active rules that are gone through for one mask. */
  maskWork: 1_000_000,
  /** Literal text around a schema, and how many such forms one grammar may choose between. */
  literalCharacters: 65_536,
  forms: 256,
} as const;

const MAX_PLACE_CHARACTERS = 400;

export type GrammarLimit = keyof typeof GRAMMAR_LIMITS;

export function grammarLimit(place: string, limit: GrammarLimit, what: string): GrammarError {
  const most = GRAMMAR_LIMITS[limit];
  return new GrammarError(
    "GRAMMAR_LIMIT",
    `[grammar] ${shown(place)}: expected ${what} up to ${most}, found more; make it smaller`,
    {
      details: { place: shown(place), limit, most },
    },
  );
}

/** It cannot be understood, or means something that cannot be kept. The place is in the words of what was given. */
export function grammarInvalid(
  place: string,
  reason: string,
  details: Readonly<Record<string, unknown>> = {},
): GrammarError {
  return new GrammarError("GRAMMAR_INVALID", `[grammar] ${shown(place)}: ${reason}`, {
    details: { place: shown(place), reason, ...details },
  });
}

/** Names of properties are part of a place, and as long as the request likes. */
function shown(place: string): string {
  return place.length <= MAX_PLACE_CHARACTERS
    ? place
    : `${place.slice(0, MAX_PLACE_CHARACTERS / 2)}…${place.slice(-MAX_PLACE_CHARACTERS / 2)}`;
}
