// Grammars by what was asked for, the ones used last: bounded by their number, and by the characters of their rules, which
// may be a million in each. What failed for its own fault stays too, so that it costs nothing to ask for it again.

import { GrammarError } from "../errors.js";

const MAX_GRAMMARS = 512;
const MAX_CHARACTERS = 16 * 2 ** 20;

interface Entry<Value> {
  readonly value: Promise<Value>;
  /** Not known before it is there. */
  characters: number;
}

export class GrammarCache<Value extends { readonly characters: number }> {
  readonly #entries = new Map<string, Entry<Value>>();
  #characters = 0;

  /** An undefined key is of what has no text, and is never known. */
  get(key: string | undefined): Promise<Value> | undefined {
    const entry = key === undefined ? undefined : this.#entries.get(key);
    if (key === undefined || entry === undefined) return undefined;
    this.#entries.delete(key);
    this.#entries.set(key, entry);
    return entry.value;
  }

  set(key: string | undefined, value: Promise<Value>): Promise<Value> {
    if (key === undefined) return value;
    const entry: Entry<Value> = { value, characters: 0 };
    this.#forget(key);
    this.#entries.set(key, entry);
    this.#trim();
    void this.#weigh(key, entry);
    return value;
  }

  async #weigh(key: string, entry: Entry<Value>): Promise<void> {
    try {
      const { characters } = await entry.value;
      if (this.#entries.get(key) !== entry) return;
      entry.characters = characters;
      this.#characters += characters;
      this.#trim();
    } catch (error) {
      if (this.#entries.get(key) === entry && !isLasting(error)) this.#forget(key);
    }
  }

  #trim(): void {
    for (const key of this.#entries.keys()) {
      if (this.#entries.size <= MAX_GRAMMARS && this.#characters <= MAX_CHARACTERS) return;
      this.#forget(key);
    }
  }

  #forget(key: string): void {
    this.#characters -= this.#entries.get(key)?.characters ?? 0;
    this.#entries.delete(key);
  }
}

/** Whether it would fail again: what took too long or lost its thread may not. */
function isLasting(error: unknown): boolean {
  return error instanceof GrammarError && (error.code === "GRAMMAR_INVALID" || error.details["limit"] !== undefined);
}
