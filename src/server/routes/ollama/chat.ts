// POST /api/chat: a chat in Ollama's API.

import { z } from "zod";
import type { ChatRequest } from "../../../completion/chat-request.js";
import type { SamplerOptions } from "../../../sampler/options.js";
import { handleChat } from "../../completion/chat-handler.js";
import type { PostRoute, Route, ServerContext } from "../../completion/route-context.js";
import type { ServerLimits } from "../../http/limits.js";
import { ollamaErrorBody } from "../../http/request-error.js";
import { anyObject, ignored } from "../../schema/fields.js";
import { listOf } from "../../schema/list-schema.js";
import type { RequestSchema } from "../../schema/request-schema.js";
import { describeSkipped, skippedTool, toolName, toolOf } from "../../schema/tool-fields.js";
import { generationFields, generationSettings, reasoningOf, responseFormatOf } from "./fields.js";
import { loadOnly } from "./load-only.js";
import { chatMessages, messageSchema } from "./messages.js";
import { shownName } from "./model-names.js";
import { messageForm, OllamaWriter } from "./writer.js";

const FIELD_NAMES = { responseFormat: "format" };

function bodySchema(limits: ServerLimits) {
  const tool = z.object({
    type: z.literal("function").nullish(),
    function: z.object({
      name: toolName,
      description: z.string().nullish(),
      parameters: anyObject.nullish(),
      type: ignored,
      strict: ignored,
    }),
    items: ignored,
  });
  return z.object({
    ...generationFields(limits),
    messages: listOf(messageSchema(limits), limits.messages).optional(),
    tools: listOf(z.union([tool, skippedTool("function")]), limits.tools).optional(),
  });
}

type OllamaChatBody = z.infer<ReturnType<typeof bodySchema>>;
type Tool = NonNullable<OllamaChatBody["tools"]>[number];

/** The schema of a request to /api/chat. */
export function ollamaChatSchema(limits: ServerLimits): RequestSchema<OllamaChatBody> {
  return {
    fields: bodySchema(limits),
    withoutEffect: ["truncate", "shift"],
    refused: {},
    skipped: ({ tools = [] }) => describeSkipped(tools.filter((tool) => !isFunction(tool))),
  };
}

function isFunction(tool: Tool): tool is Extract<Tool, { readonly function: { readonly name: string } }> {
  return tool.type === "function" || tool.type === undefined || tool.type === null;
}

function chatRequest(body: OllamaChatBody, defaults: Partial<SamplerOptions>): ChatRequest {
  return {
    messages: chatMessages(body.messages ?? []),
    tools: (body.tools ?? []).filter(isFunction).map((tool) => toolOf(tool.function)),
    responseFormat: responseFormatOf(body),
    ...reasoningOf(body),
    ...generationSettings(body, defaults),
  };
}

/** The endpoint of Ollama's chats. */
export function ollamaChat(context: ServerContext): readonly Route[] {
  const { limits, sampling } = context.options;
  const route: PostRoute<OllamaChatBody> = {
    method: "POST",
    path: "/api/chat",
    summary: "A reply in a chat, in Ollama's API",
    schema: ollamaChatSchema(limits),
    streams: "ndjson",
    fieldNames: FIELD_NAMES,
    handle: (exchange) =>
      (exchange.body.messages ?? []).length === 0
        ? loadOnly(context, exchange, messageForm)
        : handleChat(context, exchange, {
            chatRequest: ({ body }) => chatRequest(body, sampling),
            createWriter: ({ model }, { body, reply }, loadMs) =>
              new OllamaWriter({
                model: shownName(model.name, body.model),
                tokenizer: model.tokenizer,
                form: messageForm,
                hasLogprobs: body.logprobs === true,
                loadMs,
                elapsedMs: () => reply.elapsedTime,
              }),
            failure: (error) => ({ ...ollamaErrorBody(error) }),
            streamsByDefault: true,
            framing: "ndjson",
          }),
  };
  return [route];
}
