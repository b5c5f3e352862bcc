// What the outside asks of a thread that follows grammars, and what comes back. A question carries all that may be needed
// or says what it is about; a thread that was replaced and lost it asks for it, and gets the question again with that.

import type { GrammarSource } from "./grammar-spec.js";
import type { PackedVocabulary } from "./packed-vocabulary.js";

export interface GrammarQuestion {
  readonly vocabulary?: PackedVocabulary;
  readonly grammar: { readonly id: number; readonly source?: GrammarSource };
  /** Which text is followed, and how it goes on; without one the grammar is only compiled. */
  readonly text?: {
    readonly id: number;
    /** How many tokens the thread heard of before these. */
    readonly from: number;
    readonly tokens: readonly number[];
    /** Where the mask of the next token goes: shared. */
    readonly mask: Uint32Array;
  };
  /** Texts that ended. */
  readonly closed: readonly number[];
}

export type GrammarAnswer =
  | { readonly kind: "done" }
  | { readonly kind: "need"; readonly what: "vocabulary" | "grammar" | "tokens" }
  /** The grammar is at fault. */
  | { readonly kind: "invalid"; readonly reason: string }
  | { readonly kind: "limit"; readonly reason: string }
  /** The grammar does not allow a token that was chosen. */
  | { readonly kind: "refused"; readonly token: number };
