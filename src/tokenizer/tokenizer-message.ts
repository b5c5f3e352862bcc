// The messages to and from the tokenizer worker, which encodes and decodes long texts.

import type { HeaderBytes } from "../gguf/header-bytes.js";
import type { TokenizerCall, TokenizerResult } from "./tokenizer-call.js";

/** A call for the tokenizer worker. */
export interface TokenizerQuestion {
  /** The model whose tokenizer to use. */
  readonly model: number;
  /** The model's header, resent if the worker did not know the model. */
  readonly header: HeaderBytes | undefined;
  readonly call: TokenizerCall;
}

/** The worker's answer. */
export type TokenizerAnswer =
  | { readonly kind: "result"; readonly result: TokenizerResult<TokenizerCall> }
  /** The worker has been restarted, or has evicted the model since. */
  | { readonly kind: "unknown-model" };
