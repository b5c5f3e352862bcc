// Bounds the cost of converting all schemas of one request to rules. References can name the same part repeatedly, and
// merging visits all that it merges, so the size of a schema does not bound it.

import { checkTime } from "./compile-time.js";
import { GRAMMAR_LIMITS, grammarLimit } from "./limits.js";

/** The work that the schemas of one request may cost. */
export class WorkBudget {
  #steps = 0;
  #merged = 0;

  /** Charges for `count` parts, rules or digits. */
  step(place: string, count = 1): void {
    checkTime();
    this.#steps += count;
    if (this.#steps > GRAMMAR_LIMITS.schemaSteps) throw grammarLimit(place, "schemaSteps", "parts of a schema");
  }

  /** Charges for `count` keywords, properties and values. */
  merge(place: string, count: number): void {
    checkTime();
    this.#merged += count;
    if (this.#merged > GRAMMAR_LIMITS.mergedKeywords)
      throw grammarLimit(place, "mergedKeywords", "keywords that are merged");
  }
}
