// GET /openapi.json: the server's description of itself, generated from its routes and the schemas that check requests.

import { z } from "zod";
import type { PlainRoute, PostRoute, RefusedRoute, Route, ServerContext } from "../../completion/route-context.js";
import type { StreamFraming } from "../../http/event-stream.js";
import { speaksAnthropic, speaksOllama } from "../../http/request-error.js";
import { listShape } from "../../schema/list-schema.js";
import type { RequestSchema } from "../../schema/request-schema.js";

const PATH = "/openapi.json";
const SUMMARY = "This description";

/** The route that describes all others. */
export function openApi({ options }: ServerContext, routes: readonly Route[]): PlainRoute {
  const own: PlainRoute = { method: "GET", path: PATH, summary: SUMMARY, handle: (_, reply) => reply.send(document) };
  const document = openApiDocument([...routes, own], options.access.apiKeys.length > 0);
  return own;
}

function openApiDocument(routes: readonly Route[], needsKey: boolean): object {
  const paths: Record<string, object> = {};
  for (const route of routes) {
    paths[route.path] = { ...paths[route.path], [route.method.toLowerCase()]: operationOf(route) };
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "ROCmForge",
      version: "1",
      description: "Language models behind the APIs of OpenAI, Anthropic and Ollama.",
    },
    paths,
    components: {
      schemas: { OpenAiError: OPENAI_ERROR, AnthropicError: ANTHROPIC_ERROR, OllamaError: OLLAMA_ERROR },
      securitySchemes: {
        bearer: { type: "http", scheme: "bearer" },
        key: { type: "apiKey", in: "header", name: "x-api-key" },
      },
    },
    ...(needsKey ? { security: [{ bearer: [] }, { key: [] }] } : {}),
  };
}

function operationOf(route: Route): object {
  if ("refusal" in route) return refusedOperation(route);
  return route.method === "POST" ? postOperation(route) : plainOperation(route);
}

/** Parameters of the path, in braces there, and of the query, with their descriptions. */
function parametersOf(path: string, query: Readonly<Record<string, string>> = {}): object {
  const schema = { type: "string" };
  const parameters = [
    ...Array.from(path.matchAll(/\{(\w+)\}/g), ([, name]) => ({ name, in: "path", required: true, schema })),
    ...Object.entries(query).map(([name, description]) => ({ name, in: "query", description, schema })),
  ];
  return parameters.length === 0 ? {} : { parameters };
}

function refusedOperation({ path, summary, refusal }: RefusedRoute): object {
  return { summary, description: refusal, ...parametersOf(path), responses: { 501: failure(path) } };
}

function plainOperation({ path, summary, query, streams = false }: PlainRoute): object {
  const response = { description: "The response", ...(streams ? { content: contentOf(streams) } : {}) };
  return {
    summary,
    ...parametersOf(path, query),
    responses: { 200: response, default: failure(path) },
  };
}

function contentOf(streams: boolean | StreamFraming): object {
  return {
    "application/json": { schema: { type: "object" } },
    ...(streams === false
      ? {}
      : { [streams === "ndjson" ? "application/x-ndjson" : "text/event-stream"]: { schema: { type: "string" } } }),
  };
}

function postOperation({ path, summary, schema, streams = false }: PostRoute): object {
  return {
    summary,
    description: describePolicy(schema),
    requestBody: { required: true, content: { "application/json": { schema: jsonSchema(schema.fields) } } },
    responses: { 200: { description: "The response", content: contentOf(streams) }, default: failure(path) },
  };
}

function describePolicy({ withoutEffect, refused }: RequestSchema): string {
  const sentences = [
    withoutEffect.length === 0 ? "" : `Accepted without effect: ${withoutEffect.join(", ")}.`,
    Object.keys(refused).length === 0 ? "" : `Refused: ${Object.keys(refused).join(", ")}.`,
    "Other fields are ignored, or refused if the server is strict.",
  ];
  return sentences.filter((sentence) => sentence !== "").join(" ");
}

function jsonSchema(schema: z.ZodType): object {
  const { $schema: _, ...described } = z.toJSONSchema(schema, {
    io: "output",
    unrepresentable: "any",
    override: ({ zodSchema, jsonSchema: own }) => {
      // Unknown fields are accepted.
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

function failure(path: string): object {
  const schema = speaksAnthropic(path) ? "AnthropicError" : speaksOllama(path) ? "OllamaError" : "OpenAiError";
  return {
    description: "An error",
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

const OLLAMA_ERROR = {
  type: "object",
  required: ["error"],
  properties: { error: { type: "string" } },
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
