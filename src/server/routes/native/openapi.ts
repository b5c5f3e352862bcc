// GET /openapi.json: the server's description of itself, generated from its routes and the schemas that check requests.

import { z } from "zod";
import type { PlainRoute, PostRoute, Route, ServerContext } from "../../completion/route-context.js";
import { speaksAnthropic } from "../../http/request-error.js";
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
    const operation = route.method === "POST" ? postOperation(route) : plainOperation(route);
    paths[route.path] = { ...paths[route.path], [route.method.toLowerCase()]: operation };
  }
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

function plainOperation({ path, summary, query = {}, streams = false }: PlainRoute): object {
  const parameters = [
    ...(path.includes("{id}") ? [{ name: "id", in: "path", required: true, schema: { type: "string" } }] : []),
    ...Object.entries(query).map(([name, description]) => ({
      name,
      in: "query",
      description,
      schema: { type: "string" },
    })),
  ];
  const response = { description: "The response", ...(streams ? { content: contentOf(streams) } : {}) };
  return {
    summary,
    ...(parameters.length === 0 ? {} : { parameters }),
    responses: { 200: response, default: failure(path) },
  };
}

function contentOf(streams: boolean): object {
  return {
    "application/json": { schema: { type: "object" } },
    ...(streams ? { "text/event-stream": { schema: { type: "string" } } } : {}),
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
  const schema = speaksAnthropic(path) ? "AnthropicError" : "OpenAiError";
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
