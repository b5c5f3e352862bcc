// POST /v1/messages and /v1/messages/count_tokens, in Anthropic's form.

import { handleChat } from "../../../completion/chat-handler.js";
import { acquireModel, type PostRoute, type Route, type ServerContext } from "../../../completion/route-context.js";
import { anthropicErrorBody } from "../../../http/request-error.js";
import { MessageWriter } from "./events.js";
import {
  type CountTokensBody,
  countTokensRequestSchema,
  type MessageBody,
  messagePrompt,
  messageRequest,
  messageRequestSchema,
} from "./request.js";

const FIELD_NAMES = { responseFormat: "output_config.format" };

/** The endpoints of Anthropic's Messages API. */
export function messages(context: ServerContext): readonly Route[] {
  return [createMessage(context), countTokens(context)];
}

function createMessage(context: ServerContext): PostRoute<MessageBody> {
  const { limits, sampling } = context.options;
  return {
    method: "POST",
    path: "/v1/messages",
    summary: "A reply in a chat, in Anthropic's form",
    schema: messageRequestSchema(limits),
    streams: true,
    fieldNames: FIELD_NAMES,
    handle: (exchange) =>
      handleChat(context, exchange, {
        chatRequest: ({ body }) => messageRequest(body, sampling),
        createWriter: (chat) => new MessageWriter(chat),
        failure: (error, { request }) => ({ ...anthropicErrorBody(error, request.id) }),
      }),
  };
}

function countTokens(context: ServerContext): PostRoute<CountTokensBody> {
  const { limits, logPrompts } = context.options;
  return {
    method: "POST",
    path: "/v1/messages/count_tokens",
    summary: "How many tokens the prompt of a chat has",
    schema: countTokensRequestSchema(limits),
    fieldNames: FIELD_NAMES,
    handle: async (exchange) => {
      const { body, request, inFlight } = exchange;
      const prompt = messagePrompt(body);
      using lease = await acquireModel(context, exchange, body.model);
      const tokens = await context.chats.countTokens(lease.model, prompt, {
        signal: inFlight.signal,
        onPrompt: logPrompts ? (text) => request.log.info({ prompt: text }, "prompt") : undefined,
      });
      return { input_tokens: tokens };
    },
  };
}
