// Mistral 4: DeepSeek's graph, with keys for an attention temperature and YaRN's usual scale of scores.

import type { ArchitectureDescriptor } from "../descriptor.js";
import { deepseek2, readLatentParameters } from "./deepseek2.js";

/** The architecture `mistral4`. */
export const mistral4: ArchitectureDescriptor = {
  name: "mistral4",
  readHyperParameters: (source) => readLatentParameters(source, "usual"),
  buildGraph: (graph, parameters) => deepseek2.buildGraph(graph, parameters),
};
