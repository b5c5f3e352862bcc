// Compiled grammars by the key of their request. Bounded by the number of keys, of which a grammar may have several, and by
// the characters of the grammars, each counted once for all of its keys. Lasting failures are kept, too, so that asking
// for an invalid grammar again costs nothing.

import { GrammarError } from "../../errors.js";
import { LruCache } from "../../lru.js";

const MAX_KEYS = 512;
const MAX_CHARACTERS = 16 * 2 ** 20;

interface Entry<Value> {
  readonly value: Promise<Value>;
  /** Undefined until it is compiled. */
  grammar: Value | undefined;
}

/** Compiled grammars and lasting failures by key. */
export class GrammarCache<Value extends { readonly characters: number }> {
  readonly #entries = new LruCache<string, Entry<Value>>({
    maxEntries: MAX_KEYS,
    onRemove: ({ grammar }) => this.#release(grammar),
  });
  /** Number of keys of each grammar. */
  readonly #keys = new Map<Value, number>();
  #characters = 0;

  /** An undefined key stands for a request that has no JSON text; it is never found. */
  get(key: string | undefined): Promise<Value> | undefined {
    return key === undefined ? undefined : this.#entries.get(key)?.value;
  }

  set(key: string | undefined, value: Promise<Value>): Promise<Value> {
    if (key === undefined) return value;
    const entry: Entry<Value> = { value, grammar: undefined };
    this.#entries.set(key, entry);
    void this.#weigh(key, entry);
    return value;
  }

  async #weigh(key: string, entry: Entry<Value>): Promise<void> {
    try {
      const grammar = await entry.value;
      if (this.#entries.peek(key) !== entry) return;
      entry.grammar = grammar;
      const keys = this.#keys.get(grammar) ?? 0;
      this.#keys.set(grammar, keys + 1);
      if (keys === 0) this.#characters += grammar.characters;
      while (this.#characters > MAX_CHARACTERS) this.#entries.evictOldest();
    } catch (error) {
      if (this.#entries.peek(key) === entry && !isLasting(error)) this.#entries.delete(key);
    }
  }

  #release(grammar: Value | undefined): void {
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
 * Whether compiling would fail again. A grammar that took too long or lost its thread may succeed next time; a value that
 * is not JSON is not part of the key, so another request of the same key may not have it.
 */
function isLasting(error: unknown): boolean {
  return (
    error instanceof GrammarError &&
    error.details["unsent"] !== true &&
    (error.code === "GRAMMAR_INVALID" || error.details["limit"] !== undefined)
  );
}
