// POST /tokenize and /detokenize: text to tokens and back, in this project's own form.

import type { FastifyInstance } from "fastify";
import { z } from "zod";
import { declareWork, type ServerContext, withModel } from "../../completion/route-context.js";
import { modelName, totalCharacters } from "../../schema/fields.js";
import type { ServerLimits } from "../../http/limits.js";
import { JsonParts } from "../../http/json-response.js";
import { isTokenList, tokenList } from "../../completion/prompt-field.js";
import { refuseField } from "../../http/request-error.js";
import type { RequestForm } from "../../schema/request-schema.js";

/** As it may be escaped. */
const LONGEST_CHARACTER_BYTES = 6;
/** Of an id with a comma, a space and a line break. */
const LONGEST_TOKEN_BYTES = 12;
const OTHER_FIELDS_BYTES = 4096;

function tokenizeSchema() {
  return z.object({
    model: modelName.optional(),
    content: z.string(),
    add_special: z.boolean().optional().describe("Adds BOS and EOS as the model's file says; true by default"),
    parse_special: z.boolean().optional().describe("Turns the text of special tokens into these; true by default"),
    with_pieces: z.boolean().optional().describe("Gives each token's text as well"),
  });
}

function detokenizeSchema() {
  return z.object({
    model: modelName.optional(),
    tokens: z
      .custom<readonly number[]>(isTokenList, "expected a list of token ids")
      .meta({ type: "array", items: { type: "integer" } }),
    special: z.boolean().optional().describe("Prints control tokens; false by default"),
  });
}

export type TokenizeBody = z.infer<ReturnType<typeof tokenizeSchema>>;
export type DetokenizeBody = z.infer<ReturnType<typeof detokenizeSchema>>;

export function tokenizeForm(_limits: ServerLimits): RequestForm<TokenizeBody> {
  return { schema: tokenizeSchema(), withoutEffect: [], refused: {} };
}

export function detokenizeForm(_limits: ServerLimits): RequestForm<DetokenizeBody> {
  return { schema: detokenizeSchema(), withoutEffect: [], refused: {} };
}

export function declareTokenRoutes(app: FastifyInstance, context: ServerContext): void {
  const { limits } = context.options;
  declareWork(app, context, {
    url: "/tokenize",
    form: tokenizeForm(limits),
    bodyBytes: limits.tokenizeCharacters * LONGEST_CHARACTER_BYTES + OTHER_FIELDS_BYTES,
    handle: async (exchange) => {
      const {
        model: name,
        content,
        add_special: addSpecial = true,
        parse_special: parseSpecial = true,
        with_pieces: withPieces,
      } = exchange.body;
      totalCharacters([content], limits.tokenizeCharacters, "content");
      return withModel(context, exchange, name, async (model) => {
        const call = {
          kind: "tokenize",
          text: content,
          options: { addSpecial, parseSpecial },
          withPieces: withPieces === true,
        } as const;
        const { count, tokensJson, piecesJson } = await context.tokenization.run(model, call, exchange.work.signal);
        const head = { model: model.name, count, context_length: model.contextTokens };
        return JsonParts.of(head, { tokens: tokensJson, ...(piecesJson === undefined ? {} : { pieces: piecesJson }) });
      });
    },
  });
  declareWork(app, context, {
    url: "/detokenize",
    form: detokenizeForm(limits),
    bodyBytes: limits.detokenizeTokens * LONGEST_TOKEN_BYTES + OTHER_FIELDS_BYTES,
    handle: async (exchange) => {
      const { model: name, tokens, special = false } = exchange.body;
      if (tokens.length > limits.detokenizeTokens)
        refuseField("tokens", `at most ${limits.detokenizeTokens} tokens`, String(tokens.length));
      return withModel(context, exchange, name, async (model) => {
        const call = { kind: "detokenize", tokens: tokenList(model, tokens, "tokens"), special } as const;
        const { contentJson } = await context.tokenization.run(model, call, exchange.work.signal);
        return JsonParts.of({ model: model.name }, { content: contentJson });
      });
    },
  });
}
