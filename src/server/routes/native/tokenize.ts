// POST /tokenize and /detokenize: text to tokens and back, in this project's own form.

import { z } from "zod";
import { checkCharacters } from "../../../completion/request-check.js";
import { acquireModel, type PostRoute, type Route, type ServerContext } from "../../completion/route-context.js";
import { isTokenList, tokenList } from "../../completion/prompt-field.js";
import { JsonParts } from "../../http/json-response.js";
import { refuseField } from "../../http/request-error.js";
import { modelField } from "../../schema/fields.js";

/** A character of JSON text, escaped. */
const LONGEST_CHARACTER_BYTES = 6;
/** A token id with a comma, a space and a line break. */
const LONGEST_TOKEN_BYTES = 12;
const OTHER_FIELDS_BYTES = 4096;

const tokenizeFields = z.object({
  model: modelField.optional(),
  content: z.string(),
  add_special: z.boolean().optional().describe("Adds BOS and EOS as the model file specifies; true by default"),
  parse_special: z.boolean().optional().describe("Parses the text of special tokens as these tokens; true by default"),
  with_pieces: z.boolean().optional().describe("Also returns each token's text"),
});

const detokenizeFields = z.object({
  model: modelField.optional(),
  tokens: z
    .custom<readonly number[]>(isTokenList, "expected a list of token ids")
    .meta({ type: "array", items: { type: "integer" } }),
  special: z.boolean().optional().describe("Includes the text of control tokens; false by default"),
});

/** The endpoints for tokenizing and detokenizing. */
export function tokenizeRoutes(context: ServerContext): readonly Route[] {
  return [tokenizeRoute(context), detokenizeRoute(context)];
}

function tokenizeRoute(context: ServerContext): PostRoute<z.infer<typeof tokenizeFields>> {
  const { tokenizeCharacters } = context.options.limits;
  return {
    method: "POST",
    path: "/tokenize",
    summary: "Text to tokens",
    schema: { fields: tokenizeFields, withoutEffect: [], refused: {} },
    maxBodyBytes: tokenizeCharacters * LONGEST_CHARACTER_BYTES + OTHER_FIELDS_BYTES,
    handle: async (exchange) => {
      const { content, add_special: addSpecial = true, parse_special: parseSpecial = true } = exchange.body;
      checkCharacters([content], tokenizeCharacters, "content");
      using lease = await acquireModel(context, exchange, exchange.body.model);
      const withPieces = exchange.body.with_pieces === true;
      const call = { kind: "tokenize", text: content, options: { addSpecial, parseSpecial }, withPieces } as const;
      const { signal } = exchange.inFlight;
      const { count, tokensJson, piecesJson } = await context.tokenization.run(lease.model, call, signal);
      const head = { model: lease.model.name, count, context_length: lease.model.contextTokens };
      return JsonParts.of(head, { tokens: tokensJson, ...(piecesJson === undefined ? {} : { pieces: piecesJson }) });
    },
  };
}

function detokenizeRoute(context: ServerContext): PostRoute<z.infer<typeof detokenizeFields>> {
  const { detokenizeTokens } = context.options.limits;
  return {
    method: "POST",
    path: "/detokenize",
    summary: "Tokens to text",
    schema: { fields: detokenizeFields, withoutEffect: [], refused: {} },
    maxBodyBytes: detokenizeTokens * LONGEST_TOKEN_BYTES + OTHER_FIELDS_BYTES,
    handle: async (exchange) => {
      const { tokens, special = false } = exchange.body;
      if (tokens.length > detokenizeTokens)
        refuseField("tokens", `at most ${detokenizeTokens} tokens`, String(tokens.length));
      using lease = await acquireModel(context, exchange, exchange.body.model);
      const call = { kind: "detokenize", tokens: tokenList(lease.model, tokens, "tokens"), special } as const;
      const { contentJson } = await context.tokenization.run(lease.model, call, exchange.inFlight.signal);
      return JsonParts.of({ model: lease.model.name }, { content: contentJson });
    },
  };
}
