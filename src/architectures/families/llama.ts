// LLaMA 1 to 3.x and everything saved in its shape (Mistral, Mixtral, TinyLlama, SmolLM, Yi …). The converter stores query and
// key rows in pairs, hence the adjacent rotation; Llama 3.1 and later have frequency divisors in `rope_freqs.weight`.

import { buildDecoder } from "../decoder.js";
import type { ArchitectureDescriptor, DecoderTraits } from "../descriptor.js";
import { type ExpertTraits, expertsOrDense } from "../experts.js";
import { readDecoderParameters } from "../hyper-parameters.js";

const traits: DecoderTraits = {
  ropeStyle: "adjacent",
  sectionedRopeStyle: "adjacent",
  norm: "rms",
  normPlacement: "before",
  queryKeyNorm: undefined,
  activation: "silu",
  gateAndUp: "separate",
  partialRotary: false,
  ropeFactors: "rope_freqs.weight",
};

const experts: ExpertTraits = {
  widthKey: "feed_forward_length",
  gating: "softmax",
  gatingKey: false,
  renormalize: true,
  weightScaleKey: false,
  weighsInput: false,
  shared: undefined,
};

/** The architecture `llama`. */
export const llama: ArchitectureDescriptor = {
  name: "llama",
  readHyperParameters: (source) => readDecoderParameters(source, traits, expertsOrDense(experts)),
  buildGraph: buildDecoder,
  // The fallback: any file with a layer that matches no other family is read as LLaMA, and its tensors are checked.
  looksLike: (has) => ["attn_norm", "attn_q", "attn_qkv", "ffn_gate"].some((part) => has(`blk.0.${part}.weight`)),
};
