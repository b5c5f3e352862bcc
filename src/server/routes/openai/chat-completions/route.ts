// POST /v1/chat/completions.

import type { FastifyInstance } from "fastify";
import { answerHead, LAST_DATA } from "../../../completion/response-head.js";
import { declareChatRoute } from "../../../completion/chat-route.js";
import type { ServerContext } from "../../../completion/route-context.js";
import { openAiErrorBody } from "../../../http/request-error.js";
import { type ChatChunk, ChatCompletionWriter } from "./response.js";
import { type ChatCompletionBody, chatCompletionForm, chatCompletionJob } from "./request.js";

export function declareChatCompletions(app: FastifyInstance, context: ServerContext): void {
  const { limits, sampling } = context.options;
  declareChatRoute<ChatCompletionBody, ChatChunk, ChatCompletionWriter>(app, context, {
    url: "/v1/chat/completions",
    form: chatCompletionForm(limits),
    job: ({ body }) => chatCompletionJob(body, sampling),
    createWriter: ({ model }, { body }, job) =>
      new ChatCompletionWriter(answerHead("chatcmpl-", context, model), model.tokenizer, {
        choices: job.choices,
        stream: body.stream === true,
        logprobs: job.topLogprobs !== undefined,
        usage: body.stream_options?.include_usage === true,
      }),
    failure: (error) => ({ ...openAiErrorBody(error) }),
    lastData: LAST_DATA,
  });
}
