// Qwen 3 VL, text: with text alone, every rope section has the same position, which makes it Qwen 3.

import type { ArchitectureDescriptor } from "../descriptor.js";
import { qwen3 } from "./qwen3.js";

/** The architecture `qwen3vl`. */
export const qwen3vl: ArchitectureDescriptor = {
  name: "qwen3vl",
  readHyperParameters: (source) => qwen3.readHyperParameters(source),
  buildGraph: (graph, parameters) => qwen3.buildGraph(graph, parameters),
};
