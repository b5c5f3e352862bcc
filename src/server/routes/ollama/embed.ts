// POST /api/embed and the older /api/embeddings: vectors of texts, in Ollama's API.

import { z } from "zod";
import type { ModelEngine } from "../../../engine/serving.js";
import { embedAll } from "../../completion/embedding-run.js";
import { checkPromptCharacters, tokensOf } from "../../completion/prompt-field.js";
import {
  acquireModel,
  type Exchange,
  type PostRoute,
  type Route,
  type ServerContext,
} from "../../completion/route-context.js";
import type { ServerLimits } from "../../http/limits.js";
import { anyObject, modelField } from "../../schema/fields.js";
import { listOf } from "../../schema/list-schema.js";
import type { RequestSchema } from "../../schema/request-schema.js";
import { keepAlive } from "./fields.js";
import { shownName } from "./model-names.js";
import { nanoseconds } from "./writer.js";

/** The most tokens that a tokenizer adds to a text: BOS, EOS and a leading space. */
const ADDED_TOKENS = 3;

/** What both endpoints have in common. Options are about loading and sampling, which embeddings do not depend on. */
const COMMON_FIELDS = { model: modelField, keep_alive: keepAlive.optional(), options: anyObject.optional() } as const;

function embedFields(limits: ServerLimits) {
  return z.object({
    ...COMMON_FIELDS,
    input: z.union([z.string(), listOf(z.string(), limits.prompts)], { error: "expected text, or a list of texts" }),
    truncate: z.boolean().optional().describe("Whether long inputs are cut to the context length; true by default"),
    dimensions: z.int().min(1).optional().describe("Must be the model's own width"),
  });
}

function embeddingsFields() {
  return z.object({ ...COMMON_FIELDS, prompt: z.string() });
}

type EmbedBody = z.infer<ReturnType<typeof embedFields>>;
type EmbeddingsBody = z.infer<ReturnType<typeof embeddingsFields>>;

/** The schema of a request to /api/embed. */
export function embedSchema(limits: ServerLimits): RequestSchema<EmbedBody> {
  return { fields: embedFields(limits), withoutEffect: [], refused: {} };
}

/** The endpoints of Ollama's embeddings. */
export function ollamaEmbed(context: ServerContext): readonly Route[] {
  const embedRoute: PostRoute<EmbedBody> = {
    method: "POST",
    path: "/api/embed",
    summary: "A vector for each text, in Ollama's API",
    schema: embedSchema(context.options.limits),
    handle: async (exchange) => {
      const { model, input, truncate = true, dimensions } = exchange.body;
      // Empty text asks for no vector: clients load a model with it.
      const texts = typeof input === "string" ? (input === "" ? [] : [input]) : input;
      const made = await vectorsOf(context, exchange, { texts, field: "input", truncate, dimensions });
      return {
        model: shownName(made.model, model),
        embeddings: made.vectors.map((vector) => [...vector]),
        total_duration: nanoseconds(exchange.reply.elapsedTime),
        load_duration: nanoseconds(made.loadMs),
        prompt_eval_count: made.tokens,
      };
    },
  };
  const embeddingsRoute: PostRoute<EmbeddingsBody> = {
    method: "POST",
    path: "/api/embeddings",
    summary: "The vector of a text, in Ollama's older API",
    schema: { fields: embeddingsFields(), withoutEffect: [], refused: {} },
    handle: async (exchange) => {
      const { prompt } = exchange.body;
      const texts = prompt === "" ? [] : [prompt];
      const { vectors } = await vectorsOf(context, exchange, { texts, field: "prompt", truncate: true });
      return { embedding: [...(vectors[0] ?? [])] };
    },
  };
  return [embedRoute, embeddingsRoute];
}

interface EmbeddedTexts {
  readonly texts: readonly string[];
  /** The request field that they came in. */
  readonly field: string;
  readonly truncate: boolean;
  readonly dimensions?: number | undefined;
}

async function vectorsOf(
  context: ServerContext,
  exchange: Exchange<{ readonly model: string }>,
  { texts, field, truncate, dimensions }: EmbeddedTexts,
) {
  const { limits } = context.options;
  const { inFlight, body } = exchange;
  checkPromptCharacters(texts, limits.promptCharacters, field);
  const askedMs = performance.now();
  using lease = await acquireModel(context, exchange, body.model);
  const { model } = lease;
  const loadMs = performance.now() - askedMs;
  const prompts = truncate ? await truncated(context, model, texts, inFlight.signal) : texts;
  const requested = { prompts, field, reservedTokens: 0, parseSpecial: false };
  const inputs = await tokensOf(context, model, requested, inFlight.signal);
  const vectors = await embedAll(limits, inFlight, model, { inputs, dimensions });
  const tokens = inputs.reduce((sum, { length }) => sum + length, 0);
  context.metrics.countPrompt(model.name, tokens);
  return { model: model.name, vectors, tokens, loadMs };
}

/** The texts, those that exceed the context length as their first tokens. */
async function truncated(
  { tokenization, options: { limits } }: ServerContext,
  model: ModelEngine,
  texts: readonly string[],
  signal: AbortSignal,
): Promise<readonly (string | readonly number[])[]> {
  const most = Math.min(limits.promptTokens, model.contextTokens);
  // A token has at least one byte: shorter texts fit, whatever their tokens are.
  const isLong = (text: string): boolean => Buffer.byteLength(text) > most - ADDED_TOKENS;
  const long = texts.filter(isLong);
  if (long.length === 0) return texts;
  // No token is longer than `longestTokenBytes`: what is cut here would be beyond the context length.
  const cut = long.map((text) => [
    { text: text.slice(0, most * model.tokenizer.longestTokenBytes), parseSpecial: false },
  ]);
  const encoded = (await tokenization.run(model, { kind: "encode", texts: cut, addSpecial: true }, signal)).values();
  return texts.map((text) => {
    if (!isLong(text)) return text;
    const tokens = encoded.next().value as Int32Array;
    return tokens.length <= most ? text : Array.from(tokens.subarray(0, most));
  });
}
