// POST /v1/embeddings: a vector for each input, as numbers or as their bytes in base64.

import type { FastifyInstance } from "fastify";
import { z } from "zod";
import { mapAtOnce } from "./at-once.js";
import { checkPrompt } from "./completion-run.js";
import { declareWork, type ServerContext, withModel } from "./context.js";
import { FIELDS_WITHOUT_EFFECT, modelName } from "./fields.js";
import type { ServerLimits } from "./limits.js";
import { checkCharacters, promptField, promptsOf, tokensOf } from "./prompt-field.js";
import { refuseField } from "./request-error.js";
import type { RequestForm } from "./request-form.js";

/** Of one request's inputs. */
const INPUTS_AT_ONCE = 8;
const FLOAT_BYTES = 4;

function bodySchema(limits: ServerLimits) {
  return z.object({
    model: modelName.optional(),
    input: promptField(limits.prompts),
    encoding_format: z.enum(["float", "base64"]).optional(),
    dimensions: z.int().min(1).optional().describe("Only the model's own"),
  });
}

export type EmbeddingBody = z.infer<ReturnType<typeof bodySchema>>;

export function embeddingForm(limits: ServerLimits): RequestForm<EmbeddingBody> {
  return { schema: bodySchema(limits), withoutEffect: FIELDS_WITHOUT_EFFECT, refused: {} };
}

export function declareEmbeddings(app: FastifyInstance, context: ServerContext): void {
  const { limits } = context.options;
  declareWork(app, context, {
    url: "/v1/embeddings",
    form: embeddingForm(limits),
    handle: async (exchange) => {
      const { body, work } = exchange;
      const inputs = promptsOf(body.input);
      checkCharacters(inputs, limits.promptCharacters, "input");
      return withModel(context, exchange, body.model, async (model) => {
        const encoded = inputs.map((input) => tokensOf(model, input, "input"));
        for (const tokens of encoded) checkPrompt(context, model, tokens);
        const embed = async (tokens: Int32Array): Promise<Float32Array> => {
          const vector = await model.embed(tokens, work.signal);
          if (body.dimensions !== undefined && body.dimensions !== vector.length) {
            refuseField("dimensions", `${vector.length}, as this model has`, String(body.dimensions));
          }
          return vector;
        };
        const vectors = await mapAtOnce(encoded, INPUTS_AT_ONCE, embed, (reason) => work.cancel(reason));
        const tokens = encoded.reduce((sum, { length }) => sum + length, 0);
        context.metrics.countPrompt(model.name, tokens);
        return {
          object: "list",
          data: vectors.map((vector, index) => ({
            object: "embedding",
            index,
            embedding: body.encoding_format === "base64" ? base64Of(vector) : [...vector],
          })),
          model: model.name,
          usage: { prompt_tokens: tokens, total_tokens: tokens },
        };
      });
    },
  });
}

/** Little-endian, whatever this machine is. */
function base64Of(vector: Float32Array): string {
  const bytes = Buffer.alloc(vector.length * FLOAT_BYTES);
  for (const [index, value] of vector.entries()) bytes.writeFloatLE(value, index * FLOAT_BYTES);
  return bytes.toString("base64");
}
