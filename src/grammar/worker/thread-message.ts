// What goes between a grammar's worker and the main thread.

import type { GrammarError } from "../../errors.js";
import type { GrammarSpec } from "../grammar-spec.js";
import type { PackedVocabulary } from "../automaton/packed-vocabulary.js";

/** One text, as the worker is asked about it. */
export interface TextQuestion {
  readonly id: number;
  /** How many tokens of the text the worker has heard of, if all is well. */
  readonly from: number;
  /** The ones behind these. */
  readonly tokens: readonly number[];
  /** Shared memory for the mask of the next token; without, the finished text is checked. */
  readonly mask?: Uint32Array;
}

export interface GrammarQuestion {
  /** Texts that have ended. */
  readonly closed: readonly number[];
  readonly grammar: number;
  /** Sent when the worker does not know the grammar. */
  readonly spec?: GrammarSpec;
  readonly vocabulary?: PackedVocabulary;
  /** Without a text the grammar is compiled, within this time. */
  readonly compileMs?: number;
  readonly text?: TextQuestion;
}

export type GrammarAnswer =
  /** With the time that it took the worker. */
  | { readonly kind: "done"; readonly tookMs: number }
  /** Lost with another thread: to be sent along with the question once more. */
  | { readonly kind: "need"; readonly what: "vocabulary" | "grammar" | "tokens" }
  | {
      readonly kind: "failed";
      readonly code: GrammarError["code"];
      readonly message: string;
      readonly details: Readonly<Record<string, unknown>>;
    };
