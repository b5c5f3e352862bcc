// What turning the schemas of one request into rules may cost, all forms together. References can name the same part again
// and again, and merging goes over all that it merges: the size of a schema alone bounds neither.

import { checkTime } from "./compile-time.js";
import { GRAMMAR_LIMITS, grammarLimit } from "./limits.js";

export class WorkBudget {
  #steps = 0;
  #merged = 0;

  /** For so many parts, rules or digits. */
  step(place: string, count = 1): void {
    checkTime();
    this.#steps += count;
    if (this.#steps > GRAMMAR_LIMITS.schemaSteps) throw grammarLimit(place, "schemaSteps", "parts of a schema");
  }

  /** For so many keywords, properties and values. */
  merge(place: string, count: number): void {
    checkTime();
    this.#merged += count;
    if (this.#merged > GRAMMAR_LIMITS.mergedKeywords)
      throw grammarLimit(place, "mergedKeywords", "keywords that are merged");
  }
}
