// POST /tokenize and /detokenize: text to tokens and back, in this project's own form.

import type { FastifyInstance } from "fastify";
import { z } from "zod";
import { declareWork, type ServerContext, withModel } from "./context.js";
import { modelName, totalCharacters } from "./fields.js";
import type { ServerLimits } from "./limits.js";
import { isTokenList, tokensOf } from "./prompt-field.js";
import type { RequestForm } from "./request-form.js";
import { tokenText } from "./token-text.js";

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
    handle: async (exchange) => {
      const { model: name, content, add_special: addSpecial = true, parse_special: parseSpecial = true, with_pieces: withPieces } = exchange.body;
      totalCharacters([content], limits.promptCharacters, "content");
      return withModel(context, exchange, name, async (model) => {
        const tokens = [...model.tokenizer.encode(content, { addSpecial, parseSpecial })];
        const pieces = withPieces === true ? { pieces: tokens.map((token) => tokenText(model.tokenizer, token)) } : {};
        return { model: model.name, count: tokens.length, context_length: model.contextTokens, tokens, ...pieces };
      });
    },
  });
  declareWork(app, context, {
    url: "/detokenize",
    form: detokenizeForm(limits),
    handle: async (exchange) => {
      const { model: name, tokens, special = false } = exchange.body;
      return withModel(context, exchange, name, async (model) => ({
        model: model.name,
        content: model.tokenizer.decode(tokensOf(model, tokens, "tokens"), { special }),
      }));
    },
  });
}
