// What a model's file says about the choice of tokens: the sampling it recommends, and the tokens never to be chosen.

import type { GgufMetadata } from "../gguf/metadata.js";
import type { SamplerOptions } from "../sampler/options.js";
import { readRecommendedSampling } from "../sampler/recommended-sampling.js";
import { suppressedTokens } from "../tokenizer/tokenizer.js";

/** How a model's file wants its tokens to be chosen. */
export interface ModelSampling {
  /** The options of requests that do not set them. */
  readonly recommended: Partial<SamplerOptions>;
  /** Tokens that are never chosen, ascending. */
  readonly suppressedTokens: Int32Array;
}

/** Reads it from a file's metadata; throws if the list of tokens is invalid. */
export function readModelSampling(metadata: GgufMetadata): ModelSampling {
  return {
    recommended: readRecommendedSampling(metadata).options,
    suppressedTokens: suppressedTokens(metadata),
  };
}
