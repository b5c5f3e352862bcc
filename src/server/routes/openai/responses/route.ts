// POST /v1/responses, and the store behind it.

import type { FastifyInstance } from "fastify";
import { declareChatRoute } from "../../../completion/chat-route.js";
import type { Exchange, ServerContext } from "../../../completion/route-context.js";
import { conversationOf } from "./conversation.js";
import { type ResponseEvent, ResponseWriter } from "./events.js";
import { type ResponseBody, responseForm, responseJob } from "./request.js";
import type { Item } from "./items.js";
import { ResponseStore } from "./store.js";
import { declareStoredResponses } from "./stored-routes.js";

export function declareResponses(app: FastifyInstance, context: ServerContext): void {
  const { limits, sampling } = context.options;
  const store = new ResponseStore(limits);
  app.addHook("onClose", async () => store[Symbol.dispose]());
  /** The conversations of requests in flight. */
  const conversations = new WeakMap<Exchange<ResponseBody>, readonly Item[]>();
  declareChatRoute<ResponseBody, ResponseEvent, ResponseWriter>(app, context, {
    url: "/v1/responses",
    form: responseForm(limits),
    job: (exchange) => {
      const items = conversationOf(exchange.body, store, context.access.owner(exchange.request.headers), limits);
      conversations.set(exchange, items);
      return responseJob(exchange.body, items, sampling);
    },
    createWriter: ({ model }, exchange) => {
      const { body, request } = exchange;
      const input = conversations.get(exchange) ?? [];
      const keep: ConstructorParameters<typeof ResponseWriter>[1]["keep"] = (id, response, output) => {
        if (body.store !== false) store.put(context.access.owner(request.headers), { id, response, input, output });
      };
      return new ResponseWriter(body, { model: model.name, tokenizer: model.tokenizer, keep });
    },
    failure: (error, _, writer) =>
      writer?.fail(error) ?? {
        type: "error",
        sequence_number: 0,
        code: error.code,
        message: error.message,
        param: error.param ?? null,
      },
  });
  declareStoredResponses(app, context, store);
}
