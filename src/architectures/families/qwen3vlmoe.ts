// Qwen 3 VL mixtures of experts, text: with text alone, every rope section has the same position.

import type { ArchitectureDescriptor } from "../descriptor.js";
import { qwen3moe } from "./qwen3moe.js";

/** The architecture `qwen3vlmoe`. */
export const qwen3vlmoe: ArchitectureDescriptor = {
  name: "qwen3vlmoe",
  readHyperParameters: (source) => qwen3moe.readHyperParameters(source),
  buildGraph: (graph, parameters) => qwen3moe.buildGraph(graph, parameters),
};
