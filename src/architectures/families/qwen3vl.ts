// Qwen 3 VL, text: Qwen 3 with rope sections, of which text rotates all but the extra one.

import type { ArchitectureDescriptor } from "../descriptor.js";
import { withInterleavedSections } from "../rope-sections.js";
import { qwen3 } from "./qwen3.js";

/** The architecture `qwen3vl`. */
export const qwen3vl: ArchitectureDescriptor = {
  name: "qwen3vl",
  readHyperParameters: (source) => withInterleavedSections(source, qwen3.readHyperParameters(source)),
  buildGraph: (graph, parameters) => qwen3.buildGraph(graph, parameters),
};
