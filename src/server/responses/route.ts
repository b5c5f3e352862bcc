// POST /v1/responses.

import type { FastifyInstance } from "fastify";
import { declareChatRoute } from "../chat-route.js";
import type { ServerContext } from "../context.js";
import { type ResponseEvent, ResponseWriter } from "./events.js";
import { type ResponseBody, responseForm, responseJob } from "./form.js";

export function declareResponses(app: FastifyInstance, context: ServerContext): void {
  const { limits, sampling } = context.options;
  declareChatRoute<ResponseBody, ResponseEvent, ResponseWriter>(app, context, {
    url: "/v1/responses",
    form: responseForm(limits),
    job: (body) => responseJob(body, sampling),
    createWriter: ({ model }, { body }) => new ResponseWriter(body, model.name, model.tokenizer),
    failure: (error, _, writer) =>
      writer?.fail(error) ?? { type: "error", sequence_number: 0, code: error.code, message: error.message, param: error.param ?? null },
  });
}
