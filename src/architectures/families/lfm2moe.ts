// LFM2 mixtures of experts (8B-A1B, 24B-A2B): LFM2's layers, the first ones dense, then experts with sigmoid and selection bias.

import { buildDecoder } from "../decoder.js";
import type { ArchitectureDescriptor } from "../descriptor.js";
import { afterLeadingDense, type ExpertTraits, expertsOrDense } from "../experts.js";
import { readShortConvHybrid } from "./lfm2.js";

const experts: ExpertTraits = {
  widthKey: "expert_feed_forward_length",
  gating: "sigmoid",
  gatingKey: true,
  renormalize: true,
  weightScaleKey: false,
  weighsInput: false,
  shared: undefined,
};

/** The architecture `lfm2moe`. */
export const lfm2moe: ArchitectureDescriptor = {
  name: "lfm2moe",
  readHyperParameters: (source) => readShortConvHybrid(source, expertsOrDense(experts, afterLeadingDense)),
  buildGraph: buildDecoder,
};
