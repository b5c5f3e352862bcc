// Mamba-2 models: recurrent layers alone, without attention or feed-forward networks.

import { buildDecoder } from "../decoder.js";
import type { ArchitectureDescriptor, HyperParameters, ModelSource } from "../descriptor.js";
import { HyperParameterReader, MAX_CONTEXT } from "../hyper-parameter-reader.js";
import { MAX_WIDTH, readLayerCount, readVocabularySize } from "../hyper-parameters.js";
import { NORMS } from "../layer.js";
import { readMamba2 } from "../recurrent.js";

function readHyperParameters(source: ModelSource): HyperParameters {
  const reader = new HyperParameterReader(source);
  const layer = { mixer: readMamba2(reader), feedForward: { kind: "none" }, norms: NORMS["before, one part"] } as const;
  return {
    architecture: source.architecture,
    embeddingWidth: reader.count("embedding_length", MAX_WIDTH),
    contextLength: reader.count("context_length", MAX_CONTEXT),
    vocabularySize: readVocabularySize(source),
    norm: "rms",
    normEpsilon: reader.positive("attention.layer_norm_rms_epsilon"),
    layers: Array.from({ length: readLayerCount(source, reader) }, () => layer),
  };
}

/** The architecture `mamba2`. */
export const mamba2: ArchitectureDescriptor = {
  name: "mamba2",
  readHyperParameters,
  buildGraph: buildDecoder,
};
