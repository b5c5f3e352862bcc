// Grammars by what was asked for, the ones used last: bounded by the number of keys, of which a grammar has two or more
// (its text, and every way to ask for it), and by the characters of their rules, which may be a million in each and count
// once for all keys of a grammar. What failed for its own fault stays too, so that it costs nothing to ask for it again.

import { GrammarError } from "../../errors.js";

const MAX_KEYS = 512;
const MAX_CHARACTERS = 16 * 2 ** 20;

interface Entry<Value> {
  readonly value: Promise<Value>;
  /** Not known before it is there. */
  grammar: Value | undefined;
}

export class GrammarCache<Value extends { readonly characters: number }> {
  readonly #entries = new Map<string, Entry<Value>>();
  /** How many keys each has. */
  readonly #keys = new Map<Value, number>();
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
    const entry: Entry<Value> = { value, grammar: undefined };
    this.#forget(key);
    this.#entries.set(key, entry);
    this.#trim();
    void this.#weigh(key, entry);
    return value;
  }

  async #weigh(key: string, entry: Entry<Value>): Promise<void> {
    try {
      const grammar = await entry.value;
      if (this.#entries.get(key) !== entry) return;
      entry.grammar = grammar;
      const keys = this.#keys.get(grammar) ?? 0;
      this.#keys.set(grammar, keys + 1);
      if (keys === 0) this.#characters += grammar.characters;
      this.#trim();
    } catch (error) {
      if (this.#entries.get(key) === entry && !isLasting(error)) this.#forget(key);
    }
  }

  #trim(): void {
    for (const key of this.#entries.keys()) {
      if (this.#entries.size <= MAX_KEYS && this.#characters <= MAX_CHARACTERS) return;
      this.#forget(key);
    }
  }

  #forget(key: string): void {
    const grammar = this.#entries.get(key)?.grammar;
    this.#entries.delete(key);
    if (grammar === undefined) return;
    const keys = (this.#keys.get(grammar) ?? 0) - 1;
    if (keys > 0) {
      this.#keys.set(grammar, keys);
    } else {
      this.#keys.delete(grammar);
      this.#characters -= grammar.characters;
    }
  }
}

/**
 * Whether it would fail again: what took too long or lost its thread may not; nor may what could not be sent for something
 * that is not JSON, and is not in the key either.
 */
function isLasting(error: unknown): boolean {
  return (
    error instanceof GrammarError &&
    error.details["unsent"] !== true &&
    (error.code === "GRAMMAR_INVALID" || error.details["limit"] !== undefined)
  );
}
