// Messages between a grammar worker and its thread.

import type { GrammarError } from "../../errors.js";
import type { GrammarSpec } from "../grammar-spec.js";
import type { PackedVocabulary } from "../automaton/packed-vocabulary.js";

/** A request about one text. */
export interface TextRequest {
  readonly id: number;
  /** Number of tokens that the thread has already, if it has lost none. */
  readonly from: number;
  /** The tokens after these. */
  readonly tokens: readonly number[];
  /** Shared memory for the mask of the next token; if absent, the finished text is checked. */
  readonly mask?: Uint32Array;
  /** Tokens to follow after these, whose masks come after the first one in the same memory. */
  readonly further?: PathRequest & { readonly timeMs: number };
}

/** A path of tokens that may follow a text. */
export interface PathRequest {
  /** Followed as far as it is allowed. */
  readonly draft: readonly number[];
  /** Maximum tokens of the path, forced ones included. */
  readonly most: number;
}

/** A request to a grammar thread. */
export interface GrammarRequest {
  /** Texts that have ended. */
  readonly closed: readonly number[];
  readonly grammar: number;
  /** Sent if the thread does not have the grammar. */
  readonly spec?: GrammarSpec;
  readonly vocabulary?: PackedVocabulary;
  /** Time limit for compiling; without a text, the grammar is only compiled. */
  readonly compileMs?: number;
  readonly text?: TextRequest;
}

/** The reply of a grammar thread. */
export type GrammarReply =
  /** The request was done, in `tookMs`; `path` has the tokens that were followed. */
  | { readonly kind: "done"; readonly tookMs: number; readonly path: readonly number[] }
  /** The thread has lost this state, which has to be sent with the request again. */
  | { readonly kind: "missing"; readonly what: "vocabulary" | "grammar" | "tokens" }
  | {
      readonly kind: "failed";
      readonly code: GrammarError["code"];
      readonly message: string;
      readonly details: Readonly<Record<string, unknown>>;
    };
