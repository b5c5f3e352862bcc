// Qwen3-Next and Qwen3-Coder-Next: as Qwen 3.5's mixtures, but neighbouring value heads share a key head, and some projections
// are fused.

import { buildDecoder } from "../decoder.js";
import type { ArchitectureDescriptor } from "../descriptor.js";
import { expertsOrDense } from "../experts.js";
import { readDeltaNetHybrid } from "./qwen35.js";
import { gatedSharedExperts } from "./qwen35moe.js";

/** The architecture `qwen3next`. */
export const qwen3next: ArchitectureDescriptor = {
  name: "qwen3next",
  readHyperParameters: (source) => readDeltaNetHybrid(source, "grouped", expertsOrDense(gatedSharedExperts)),
  buildGraph: buildDecoder,
};
