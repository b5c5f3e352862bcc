// Limits on the grammar of a request. Grammars come from clients, and cost memory and time of a thread; what these
// limits allow is bounded by the limits of that thread.

import { GrammarError } from "../errors.js";

/** The limits on one grammar. */
export const GRAMMAR_LIMITS = {
  /**
   * Size of a schema: objects, lists and values in it, and characters of its texts. Larger ones come from faulty
   * generators.
   */
  schemaNodes: 20_000,
  schemaCharacters: 262_144,
  /** Nesting of a schema. */
  schemaDepth: 64,
  /** Alternatives of one place in a schema: merging `allOf` with `anyOf` multiplies them. */
  schemaAlternatives: 256,
  /** Steps for all schemas of a request: parts that are visited, and rules made of numbers and names. */
  schemaSteps: 65_536,
  /** Keywords, properties, values and every 8 characters of text that merging visits, about 30 ns each. */
  mergedKeywords: 1_000_000,
  regexCharacters: 4096,
  grammarCharacters: 65_536,
  /** Nesting of groups in a regular expression or grammar, which are parsed by recursion. */
  groupDepth: 48,
  /** Count of a repetition; more would exceed any context, or be a mistake. */
  repetitions: 65_536,
  /** States of a compiled grammar; a state takes about 100 bytes, and a microsecond to make. */
  networkStates: 200_000,
  /** States of one automaton that combines patterns, names or numbers; each has a row of edges. */
  automatonStates: 8192,
  /** Rules that are active at one position of a text; more make every step slow. */
  activeItems: 20_000,
  /** Active rules that are processed for one mask. */
  maskWork: 1_000_000,
  /** Characters of literal text around a schema, and the number of such forms in one grammar. */
  literalCharacters: 65_536,
  forms: 256,
  /** Forms that follow one another: a model that repeats itself comes to an end. */
  seriesForms: 32,
} as const;

const MAX_PLACE_CHARACTERS = 400;

type GrammarLimit = keyof typeof GRAMMAR_LIMITS;

/** An error for a grammar that exceeds a limit. */
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

/** An error for a grammar that is invalid or unsupported. The place is a path in the given grammar. */
export function grammarInvalid(
  place: string,
  reason: string,
  details: Readonly<Record<string, unknown>> = {},
): GrammarError {
  return new GrammarError("GRAMMAR_INVALID", `[grammar] ${shown(place)}: ${reason}`, {
    details: { place: shown(place), reason, ...details },
  });
}

/** A place for a message, shortened: it contains property names of any length. */
function shown(place: string): string {
  return place.length <= MAX_PLACE_CHARACTERS
    ? place
    : `${place.slice(0, MAX_PLACE_CHARACTERS / 2)}…${place.slice(-MAX_PLACE_CHARACTERS / 2)}`;
}
