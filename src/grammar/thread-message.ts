// What the outside asks of a thread that follows grammars, and what comes back. A question carries all that may be needed
// or says what it is about; a thread that was replaced and lost it asks for it, and gets the question again with that.

import type { GrammarError } from "../errors.js";
import type { GrammarSource, GrammarSpec } from "./grammar-spec.js";
import type { PackedVocabulary } from "./packed-vocabulary.js";

/** What was asked for, to be turned into a grammar. */
export interface ConversionQuestion {
  readonly kind: "convert";
  readonly spec: GrammarSpec;
  /** Texts that ended. */
  readonly closed: readonly number[];
}

export interface FollowQuestion {
  readonly kind: "follow";
  readonly vocabulary?: PackedVocabulary;
  /** The thread begins anew with this grammar alone, to tell what it needs by itself. */
  readonly alone: boolean;
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

export type GrammarQuestion = ConversionQuestion | FollowQuestion;

export type ConversionAnswer =
  | { readonly kind: "source"; readonly source: GrammarSource }
  /** A GrammarError, in parts that can be sent. */
  | { readonly kind: "failed"; readonly code: GrammarError["code"]; readonly message: string; readonly details: GrammarError["details"] };

export type FollowAnswer =
  | { readonly kind: "done" }
  /** "room": the library died of what several grammars needed together. */
  | { readonly kind: "need"; readonly what: "vocabulary" | "grammar" | "tokens" | "room" }
  /** The grammar is at fault. */
  | { readonly kind: "invalid"; readonly reason: string }
  | { readonly kind: "limit"; readonly reason: string }
  /** The grammar does not allow a token that was chosen. */
  | { readonly kind: "refused"; readonly token: number };

export type GrammarAnswer = ConversionAnswer | FollowAnswer;
