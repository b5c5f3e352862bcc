// POST /v1/chat/completions.

import { handleChat } from "../../../completion/chat-handler.js";
import { LAST_DATA, responseHead } from "../../../completion/response-head.js";
import type { PostRoute, Route, ServerContext } from "../../../completion/route-context.js";
import { openAiErrorBody } from "../../../http/request-error.js";
import { type ChatCompletionBody, chatCompletionRequest, chatCompletionRequestSchema } from "./request.js";
import { ChatCompletionWriter } from "./response.js";

const FIELD_NAMES = { responseFormat: "response_format" };

/** The endpoint of OpenAI's Chat Completions API. */
export function chatCompletions(context: ServerContext): readonly Route[] {
  const { limits, sampling } = context.options;
  const route: PostRoute<ChatCompletionBody> = {
    method: "POST",
    path: "/v1/chat/completions",
    summary: "A reply in a chat",
    schema: chatCompletionRequestSchema(limits),
    streams: true,
    fieldNames: FIELD_NAMES,
    handle: (exchange) =>
      handleChat(context, exchange, {
        chatRequest: ({ body }) => chatCompletionRequest(body, sampling),
        createWriter: ({ model }, { body }) =>
          new ChatCompletionWriter(responseHead("chatcmpl-", context, model), model.tokenizer, body),
        failure: (error) => ({ ...openAiErrorBody(error) }),
        lastData: LAST_DATA,
      }),
  };
  return [route];
}
