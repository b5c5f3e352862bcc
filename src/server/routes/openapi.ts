// The server's description of itself, made of the schemas that judge its requests.

import { z } from "zod";
import { chatCompletionForm } from "./openai/chat-completions/request.js";
import { completionForm } from "./openai/completions/request.js";
import { embeddingForm } from "./openai/embeddings.js";
import type { ServerLimits } from "../http/limits.js";
import { listShape } from "../schema/list-schema.js";
import { countForm, messageForm } from "./anthropic/messages/request.js";
import type { RequestForm } from "../schema/request-schema.js";
import { responseForm } from "./openai/responses/request.js";
import { detokenizeForm, tokenizeForm } from "./native/token-routes.js";

interface Described {
  readonly path: string;
  readonly summary: string;
  readonly form: RequestForm;
  readonly streams?: boolean;
  readonly error?: "OpenAiError" | "AnthropicError";
}

const PLAIN: readonly (readonly [path: string, summary: string])[] = [
  ["/v1/models", "The models that are served"],
  ["/v1/models/{id}", "One of them"],
  ["/v1/responses/{id}", "A stored response"],
  ["/v1/responses/{id}/input_items", "The input items of a stored response, page by page"],
  ["/health", "Whether the server is ready: 200, or 503 while it loads, warms up or stops; needs no key"],
  ["/metrics", "Counts and times, for Prometheus"],
  ["/openapi.json", "This description"],
];

const STORED = "/v1/responses/{id}";

function describedForms(limits: ServerLimits): readonly Described[] {
  return [
    { path: "/v1/chat/completions", summary: "An answer in a chat", form: chatCompletionForm(limits), streams: true },
    { path: "/v1/completions", summary: "Text after a prompt", form: completionForm(limits), streams: true },
    {
      path: "/v1/responses",
      summary: "An answer in a chat, stored unless store is false",
      form: responseForm(limits),
      streams: true,
    },
    { path: "/v1/embeddings", summary: "A vector for each text", form: embeddingForm(limits) },
    {
      path: "/v1/messages",
      summary: "An answer in a chat, in Anthropic's form",
      form: messageForm(limits),
      streams: true,
      error: "AnthropicError",
    },
    {
      path: "/v1/messages/count_tokens",
      summary: "How many tokens a chat has",
      form: countForm(limits),
      error: "AnthropicError",
    },
    { path: "/tokenize", summary: "Text to tokens", form: tokenizeForm(limits) },
    { path: "/detokenize", summary: "Tokens to text", form: detokenizeForm(limits) },
  ];
}

export function openApiDocument(limits: ServerLimits, needsKey: boolean): object {
  const paths: Record<string, object> = {};
  for (const [path, summary] of PLAIN) paths[path] = { get: plainOperation(path, summary) };
  paths[STORED] = { ...paths[STORED], delete: plainOperation(STORED, "Deletes a stored response") };
  for (const described of describedForms(limits)) paths[described.path] = { post: operation(described) };
  return {
    openapi: "3.1.0",
    info: { title: "ROCmForge", version: "1", description: "Language models behind the APIs of OpenAI and Anthropic." },
    paths,
    components: {
      schemas: { OpenAiError: OPENAI_ERROR, AnthropicError: ANTHROPIC_ERROR },
      securitySchemes: {
        bearer: { type: "http", scheme: "bearer" },
        key: { type: "apiKey", in: "header", name: "x-api-key" },
      },
    },
    ...(needsKey ? { security: [{ bearer: [] }, { key: [] }] } : {}),
  };
}

function plainOperation(path: string, summary: string): object {
  const parameters = path.includes("{id}")
    ? { parameters: [{ name: "id", in: "path", required: true, schema: { type: "string" } }] }
    : {};
  return { summary, ...parameters, responses: { 200: { description: "The answer" }, default: failure("OpenAiError") } };
}

function operation({ summary, form, streams = false, error = "OpenAiError" }: Described): object {
  const schema = jsonSchema(form.schema);
  const answer = {
    "application/json": { schema: { type: "object" } },
    ...(streams ? { "text/event-stream": { schema: { type: "string" } } } : {}),
  };
  return {
    summary,
    description: describePolicy(form),
    requestBody: { required: true, content: { "application/json": { schema } } },
    responses: { 200: { description: "The answer", content: answer }, default: failure(error) },
  };
}

function describePolicy({ withoutEffect, refused }: RequestForm): string {
  const sentences = [
    withoutEffect.length === 0 ? "" : `Accepted without effect: ${withoutEffect.join(", ")}.`,
    Object.keys(refused).length === 0 ? "" : `Refused: ${Object.keys(refused).join(", ")}.`,
    "Other fields are ignored, or refused where the server is strict.",
  ];
  return sentences.filter((sentence) => sentence !== "").join(" ");
}

function jsonSchema(schema: z.ZodType): object {
  const { $schema: _, ...described } = z.toJSONSchema(schema, {
    io: "output",
    unrepresentable: "any",
    override: ({ zodSchema, jsonSchema: own }) => {
      // Fields that are not known are no error.
      if (own.additionalProperties === false) delete own.additionalProperties;
      const list = listShape(zodSchema);
      if (list !== undefined)
        Object.assign(own, {
          type: "array",
          items: jsonSchema(list.element),
          minItems: list.least,
          maxItems: list.most,
        });
    },
  });
  return described;
}

function failure(schema: string): object {
  return {
    description: "What is wrong",
    content: { "application/json": { schema: { $ref: `#/components/schemas/${schema}` } } },
  };
}

const OPENAI_ERROR = {
  type: "object",
  required: ["error"],
  properties: {
    error: {
      type: "object",
      required: ["message", "type", "param", "code"],
      properties: {
        message: { type: "string" },
        type: { type: "string" },
        param: { type: ["string", "null"] },
        code: { type: "string" },
      },
    },
  },
} as const;

const ANTHROPIC_ERROR = {
  type: "object",
  required: ["type", "error"],
  properties: {
    type: { const: "error" },
    error: {
      type: "object",
      required: ["type", "message"],
      properties: { type: { type: "string" }, message: { type: "string" } },
    },
    request_id: { type: ["string", "null"] },
  },
} as const;
