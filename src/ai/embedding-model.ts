// An embedding model of the AI SDK over a model of this process.

import type { EmbeddingModelV4, EmbeddingModelV4CallOptions, EmbeddingModelV4Result } from "@ai-sdk/provider";
import { PROVIDER_NAME } from "./language-model-options.js";
import type { ProvidedModel } from "./provided-model.js";

/** As many as OpenAI's API takes; the SDK divides longer lists, and texts of all calls are batched together. */
const MAX_EMBEDDINGS_PER_CALL = 2048;

/** An embedding model of the provider. */
export class RocmForgeEmbeddingModel implements EmbeddingModelV4 {
  readonly specificationVersion = "v4";
  readonly provider = PROVIDER_NAME;
  readonly modelId: string;
  readonly maxEmbeddingsPerCall = MAX_EMBEDDINGS_PER_CALL;
  readonly supportsParallelCalls = true;
  readonly #provided: ProvidedModel;

  constructor(modelId: string, provided: ProvidedModel) {
    this.modelId = modelId;
    this.#provided = provided;
  }

  async doEmbed({ values, dimensions, abortSignal }: EmbeddingModelV4CallOptions): Promise<EmbeddingModelV4Result> {
    const model = await this.#provided.open(abortSignal);
    // Texts to embed are data: the text of a control token in them is text.
    const tokens = values.map((value) => model.tokenize(value, { parseSpecial: false }));
    const vectors = await model.embed(tokens, abortSignal === undefined ? {} : { signal: abortSignal });
    return {
      embeddings: vectors.map((vector) => Array.from(vector)),
      usage: { tokens: tokens.reduce((sum, { length }) => sum + length, 0) },
      warnings:
        dimensions === undefined || vectors.every(({ length }) => length === dimensions)
          ? []
          : [
              {
                type: "unsupported",
                feature: "dimensions",
                details: `vectors of this model have ${vectors[0].length}`,
              },
            ],
    };
  }
}
