// Nemotron 3 (Nano 30B-A3B, Super 120B-A12B): Nemotron-H's layers, whose feed-forward networks are experts with relu², in some files
// behind a latent projection, beside a shared expert.

import { buildDecoder } from "../decoder.js";
import type { ArchitectureDescriptor } from "../descriptor.js";
import { type ExpertTraits, readExperts, sharedByWidth } from "../experts.js";
import { MAX_WIDTH } from "../hyper-parameters.js";
import { type NetworkReader, readSinglePartLayers } from "./nemotron-h.js";

const experts: ExpertTraits = {
  widthKey: "expert_feed_forward_length",
  gating: "sigmoid",
  gatingKey: false,
  renormalize: "key",
  weightScaleKey: true,
  weighsInput: false,
  shared: sharedByWidth,
};

const readNetwork: NetworkReader = (reader) => {
  const spec = readExperts(reader, experts);
  if (spec === undefined) return reader.refuse("expert_count", "at least 1", "0");
  const latent = reader.optionalNonNegative("moe_latent_size") ?? 0;
  return () => ({
    ...spec,
    activation: "relu",
    ungated: true,
    ...(latent === 0 ? {} : { latentWidth: reader.count("moe_latent_size", MAX_WIDTH) }),
  });
};

/** The architecture `nemotron_h_moe`. */
export const nemotronHMoe: ArchitectureDescriptor = {
  name: "nemotron_h_moe",
  readHyperParameters: (source) => readSinglePartLayers(source, readNetwork),
  buildGraph: buildDecoder,
};
