// Qwen 3.5 to 3.8 mixtures of experts (35B-A3B, 122B-A10B, 397B-A17B): Qwen 3.5's layers with experts and a gated shared expert.

import { buildDecoder } from "../decoder.js";
import type { ArchitectureDescriptor } from "../descriptor.js";
import { type ExpertTraits, expertsOrDense, sharedByWidth } from "../experts.js";
import { withInterleavedSections } from "../rope-sections.js";
import { readDeltaNetHybrid } from "./qwen35.js";

/** Experts beside a shared expert with a gate. */
export const gatedSharedExperts: ExpertTraits = {
  widthKey: "expert_feed_forward_length",
  sharesWidth: true,
  gating: "softmax",
  gatingKey: false,
  renormalize: true,
  weightScaleKey: false,
  weighsInput: false,
  shared: (reader, width) => ({ width: sharedByWidth(reader)?.width ?? width, gated: true }),
};

/** The architecture `qwen35moe`. */
export const qwen35moe: ArchitectureDescriptor = {
  name: "qwen35moe",
  readHyperParameters: (source) =>
    withInterleavedSections(source, readDeltaNetHybrid(source, "cyclic", expertsOrDense(gatedSharedExperts))),
  buildGraph: buildDecoder,
};
