// Builds a tokenizer in small parts between other work, from the file's metadata or from tables that another thread has
// built. Invariant: an error is thrown by `finish` alone, and is the same however the tokenizer is built.

import type { GgufMetadata } from "../gguf/metadata.js";
import type { PrebuiltVocabulary } from "./prebuilt-vocabulary.js";
import { type Tokenizer, tokenizerTurns } from "./tokenizer.js";

/** Builds a tokenizer incrementally: a large vocabulary takes a quarter of a second. */
export class TokenizerBuilder {
  readonly #turns: Generator<void, Tokenizer, undefined>;
  #outcome: { readonly tokenizer: Tokenizer } | { readonly error: unknown } | undefined;

  /** `given` is asked once, when the work begins, for tables that another thread has built. */
  constructor(metadata: GgufMetadata, given?: () => PrebuiltVocabulary | undefined) {
    this.#turns = tokenizerTurns(metadata, given);
  }

  /** Does a few milliseconds of the work; returns false if none is left. */
  step(): boolean {
    if (this.#outcome !== undefined) return false;
    try {
      const { done, value } = this.#turns.next();
      if (done === true) this.#outcome = { tokenizer: value };
    } catch (error) {
      this.#outcome = { error };
    }
    return this.#outcome === undefined;
  }

  /** Does the rest of the work; throws if the file's tokenizer is invalid. */
  finish(): Tokenizer {
    while (this.step());
    if (this.#outcome === undefined || "error" in this.#outcome) throw this.#outcome?.error;
    return this.#outcome.tokenizer;
  }
}
