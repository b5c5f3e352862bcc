// POST /v1/embeddings: a vector for each input, as numbers or as their bytes in base64.

import type { FastifyInstance } from "fastify";
import { z } from "zod";
import type { ServedModel } from "../../../engine/serving.js";
import { mapAtOnce, untilRoom } from "../../completion/concurrency.js";
import { deadlineOf } from "../../completion/completion-run.js";
import { declareWork, type ServerContext, withModel } from "../../completion/route-context.js";
import { FIELDS_WITHOUT_EFFECT, modelName } from "../../schema/fields.js";
import type { ServerLimits } from "../../http/limits.js";
import { checkCharacters, promptField, promptsOf, tokensOf } from "../../completion/prompt-field.js";
import { refuseField, RequestError } from "../../http/request-error.js";
import type { RequestForm } from "../../schema/request-schema.js";
import type { Work } from "../../http/request-tracker.js";

const FLOAT_BYTES = 4;
const RETRY_AFTER_MS = 10_000;

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
        // Nothing is written, so that an input may fill the context. Inputs are data: documents and questions, in which the
        // text of a control token is text.
        const encoded = await tokensOf(context, work, model, {
          prompts: inputs,
          param: "input",
          room: 0,
          parseSpecial: false,
        });
        const vectors = await embedAll(context, work, model, encoded, body.dimensions);
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

/** There is no part of an answer to send when its time is up. */
async function embedAll(
  context: ServerContext,
  work: Work,
  model: ServedModel,
  inputs: readonly Int32Array[],
  dimensions: number | undefined,
): Promise<readonly Float32Array[]> {
  const deadlineMs = deadlineOf(context);
  const { timeLimitMs } = context.options.limits;
  const timer = setTimeout(() => work.cancel(timeIsUp(timeLimitMs)), timeLimitMs);
  try {
    return await mapAtOnce(work, inputs, async (tokens, index) => {
      const patience = { mayRepeat: () => index > 0, signal: work.signal, deadlineMs };
      const vector = await untilRoom(() => model.embed(tokens, work.signal), patience);
      if (dimensions !== undefined && dimensions !== vector.length)
        refuseField("dimensions", `${vector.length}, as this model has`, String(dimensions));
      return vector;
    });
  } finally {
    clearTimeout(timer);
  }
}

function timeIsUp(timeLimitMs: number): RequestError {
  return new RequestError(
    `[input] expected what takes ${timeLimitMs} ms at most, and it took longer; send fewer or shorter inputs at once, or try later`,
    {
      status: 503,
      code: "time_limit_exceeded",
      param: "input",
      retryAfterMs: RETRY_AFTER_MS,
    },
  );
}

/** Little-endian, whatever this machine is. */
function base64Of(vector: Float32Array): string {
  const bytes = Buffer.alloc(vector.length * FLOAT_BYTES);
  for (const [index, value] of vector.entries()) bytes.writeFloatLE(value, index * FLOAT_BYTES);
  return bytes.toString("base64");
}
