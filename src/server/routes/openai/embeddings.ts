// POST /v1/embeddings: a vector for each input, as numbers or as their bytes in base64.

import { z } from "zod";
import { embedAll } from "../../completion/embedding-run.js";
import { checkPromptCharacters, promptField, promptsOf, tokensOf } from "../../completion/prompt-field.js";
import {
  acquireModel,
  type Exchange,
  type PostRoute,
  type Route,
  type ServerContext,
} from "../../completion/route-context.js";
import type { ServerLimits } from "../../http/limits.js";
import { FIELDS_WITHOUT_EFFECT, modelField } from "../../schema/fields.js";
import type { RequestSchema } from "../../schema/request-schema.js";

const FLOAT_BYTES = 4;

function bodySchema(limits: ServerLimits) {
  return z.object({
    model: modelField.optional(),
    input: promptField(limits.prompts),
    encoding_format: z.enum(["float", "base64"]).optional(),
    dimensions: z.int().min(1).optional().describe("Must be the model's own width"),
  });
}

/** The body of a request to /v1/embeddings. */
type EmbeddingBody = z.infer<ReturnType<typeof bodySchema>>;

/** The schema of a request to /v1/embeddings. */
export function embeddingRequestSchema(limits: ServerLimits): RequestSchema<EmbeddingBody> {
  return { fields: bodySchema(limits), withoutEffect: FIELDS_WITHOUT_EFFECT, refused: {} };
}

/** The endpoint of OpenAI's Embeddings API. */
export function embeddings(context: ServerContext): readonly Route[] {
  const route: PostRoute<EmbeddingBody> = {
    method: "POST",
    path: "/v1/embeddings",
    summary: "A vector for each text",
    schema: embeddingRequestSchema(context.options.limits),
    handle: (exchange) => embed(context, exchange),
  };
  return [route];
}

async function embed(context: ServerContext, exchange: Exchange<EmbeddingBody>): Promise<object> {
  const { body, inFlight } = exchange;
  const inputs = promptsOf(body.input);
  checkPromptCharacters(inputs, context.options.limits.promptCharacters, "input");
  using lease = await acquireModel(context, exchange, body.model);
  const { model } = lease;
  // No tokens are generated, so an input may fill the context. Inputs are data, such as documents and questions: the text
  // of a control token in them is text.
  const requested = { prompts: inputs, field: "input", reservedTokens: 0, parseSpecial: false };
  const encoded = await tokensOf(context, model, requested, inFlight.signal);
  const { dimensions } = body;
  const vectors = await embedAll(context.options.limits, inFlight, model, { inputs: encoded, dimensions });
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
}

/** Little-endian on every machine. */
function base64Of(vector: Float32Array): string {
  const bytes = Buffer.alloc(vector.length * FLOAT_BYTES);
  for (const [index, value] of vector.entries()) bytes.writeFloatLE(value, index * FLOAT_BYTES);
  return bytes.toString("base64");
}
