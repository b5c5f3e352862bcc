// What the thread that encodes and decodes long texts is asked, and answers.

import type { HeaderBytes } from "../gguf/header-bytes.js";
import type { TokenizerCall, TokenizerResult } from "./tokenizer-call.js";

export interface TokenizerQuestion {
  /** Which model's tokenizer. */
  readonly model: number;
  /** Where the thread did not know that model. */
  readonly header: HeaderBytes | undefined;
  readonly call: TokenizerCall;
}

export type TokenizerAnswer =
  | { readonly kind: "result"; readonly result: TokenizerResult<TokenizerCall> }
  /** The thread is new, or has known too many others since. */
  | { readonly kind: "unknown-model" };
