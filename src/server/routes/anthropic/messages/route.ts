// POST /v1/messages and /v1/messages/count_tokens, in Anthropic's form.

import type { FastifyInstance } from "fastify";
import { declareChatRoute } from "../../../completion/chat-route.js";
import { renderChat } from "../../../completion/chat-run.js";
import { declareWork, type ServerContext, withModel } from "../../../completion/route-context.js";
import { anthropicErrorBody } from "../../../http/request-error.js";
import { type MessageEvent, MessageWriter } from "./events.js";
import { countForm, type MessageBody, messageForm, messageJob, messagePrompt } from "./request.js";

export function declareMessages(app: FastifyInstance, context: ServerContext): void {
  const { limits, sampling } = context.options;
  declareChatRoute<MessageBody, MessageEvent, MessageWriter>(app, context, {
    url: "/v1/messages",
    form: messageForm(limits),
    job: ({ body }) => messageJob(body, sampling),
    createWriter: (run) => new MessageWriter(run),
    failure: (error, { request }) => ({ ...anthropicErrorBody(error, request.id) }),
  });
  declareWork(app, context, {
    url: "/v1/messages/count_tokens",
    form: countForm(limits),
    handle: (exchange) => {
      const asked = messagePrompt(exchange.body);
      return withModel(context, exchange, asked.model, async (model) => {
        const { prompt } = await renderChat(context, exchange, model, asked);
        return { input_tokens: prompt.length };
      });
    },
  });
}
