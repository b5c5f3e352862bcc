// Qwen 3 VL mixtures of experts, text: the Qwen 3 mixture with rope sections, of which text rotates all but the extra one.

import type { ArchitectureDescriptor } from "../descriptor.js";
import { withInterleavedSections } from "../rope-sections.js";
import { qwen3moe } from "./qwen3moe.js";

/** The architecture `qwen3vlmoe`. */
export const qwen3vlmoe: ArchitectureDescriptor = {
  name: "qwen3vlmoe",
  readHyperParameters: (source) => withInterleavedSections(source, qwen3moe.readHyperParameters(source)),
  buildGraph: (graph, parameters) => qwen3moe.buildGraph(graph, parameters),
};
