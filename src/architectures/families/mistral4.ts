// Mistral 4: DeepSeek's graph, with keys for an attention temperature.

import type { ArchitectureDescriptor } from "../descriptor.js";
import { deepseek2 } from "./deepseek2.js";

/** The architecture `mistral4`. */
export const mistral4: ArchitectureDescriptor = {
  name: "mistral4",
  readHyperParameters: (source) => deepseek2.readHyperParameters(source),
  buildGraph: (graph, parameters) => deepseek2.buildGraph(graph, parameters),
};
