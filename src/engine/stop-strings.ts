// Ends text at the first complete stop string, and holds back a suffix that may become one, so that emitted text is
// never retracted. Each stop string is matched incrementally (Knuth, Morris and Pratt): a character costs the same
// however long the strings are, and the result does not depend on how the text is split.

interface StopResult {
  /** Text that is safe to show. */
  readonly text: string;
  readonly stopped: boolean;
  /** The stop string that was found. */
  readonly stop?: string;
}

class Pattern {
  readonly text: string;
  /** For each prefix length, the length of the longest proper prefix that is also its suffix. */
  readonly #fallback: Int32Array;
  #matched = 0;

  constructor(text: string) {
    this.text = text;
    this.#fallback = new Int32Array(text.length + 1);
    for (let length = 2, matched = 0; length <= text.length; length++) {
      while (matched > 0 && text[length - 1] !== text[matched]) matched = this.#fallback[matched];
      if (text[length - 1] === text[matched]) matched++;
      this.#fallback[length] = matched;
    }
  }

  /** Length of the prefix that the text ends with so far. */
  get matched(): number {
    return this.#matched;
  }

  follow(unit: string): boolean {
    while (this.#matched > 0 && this.text[this.#matched] !== unit) this.#matched = this.#fallback[this.#matched];
    if (this.text[this.#matched] === unit) this.#matched++;
    return this.#matched === this.text.length;
  }
}

/** Finds stop strings in text that arrives in deltas. */
export class StopStrings {
  readonly #patterns: readonly Pattern[];
  #held = "";

  constructor(stops: readonly string[]) {
    this.#patterns = stops.map((stop) => new Pattern(stop));
  }

  push(text: string): StopResult {
    if (this.#patterns.length === 0) return { text, stopped: false };
    for (let index = 0; index < text.length; index++) {
      const found = this.#follow(text[index]);
      if (found === undefined) continue;
      const shown = (this.#held + text).slice(0, this.#held.length + index + 1 - found.length);
      this.#held = "";
      return { text: shown, stopped: true, stop: found };
    }
    const whole = this.#held + text;
    const shown = whole.length - this.#patterns.reduce((most, { matched }) => Math.max(most, matched), 0);
    // Concatenated strings are flattened when they are cut: a long stop string is cut once, not with every token.
    this.#held = shown === 0 ? whole : whole.slice(shown);
    return { text: shown === 0 ? "" : whole.slice(0, shown), stopped: false };
  }

  /** Returns text that was held back and did not become a stop string. */
  flush(): string {
    const text = this.#held;
    this.#held = "";
    return text;
  }

  /** The longest stop string that this character completes: it starts earliest. */
  #follow(unit: string): string | undefined {
    let found: string | undefined;
    for (const pattern of this.#patterns) {
      if (pattern.follow(unit) && pattern.text.length > (found?.length ?? 0)) found = pattern.text;
    }
    return found;
  }
}
