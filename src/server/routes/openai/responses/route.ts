// POST /v1/responses, and the stored responses behind it.

import { handleChat } from "../../../completion/chat-handler.js";
import type { PostRoute, Route, ServerContext } from "../../../completion/route-context.js";
import { conversationOf } from "./conversation.js";
import { ResponseWriter } from "./events.js";
import { type ResponseBody, responseRequest, responseRequestSchema } from "./request.js";
import { ResponseStore } from "./store.js";
import { storedResponses } from "./stored-routes.js";

const FIELD_NAMES = { messages: "input", responseFormat: "text.format" };

/** The endpoints of OpenAI's Responses API. */
export function responses(context: ServerContext): readonly Route[] {
  const store = new ResponseStore(context.options.limits);
  return [createResponse(context, store), ...storedResponses(context, store)];
}

function createResponse(context: ServerContext, store: ResponseStore): PostRoute<ResponseBody> {
  const { limits, sampling } = context.options;
  return {
    method: "POST",
    path: "/v1/responses",
    summary: "A reply in a chat, stored unless store is false",
    schema: responseRequestSchema(limits),
    streams: true,
    fieldNames: FIELD_NAMES,
    close: () => store[Symbol.dispose](),
    handle: (exchange) => {
      const { body, request } = exchange;
      const owner = context.access.owner(request.headers);
      const input = conversationOf(body, store, owner, limits);
      return handleChat(context, exchange, {
        chatRequest: () => responseRequest(body, input, sampling),
        createWriter: ({ model }) =>
          new ResponseWriter(body, {
            model: model.name,
            tokenizer: model.tokenizer,
            keep: (id, response, output) => {
              if (body.store !== false) store.put(owner, { id, response, input, output });
            },
          }),
        failure: (error, _, writer) =>
          writer?.fail(error) ?? {
            type: "error",
            sequence_number: 0,
            code: error.code,
            message: error.message,
            param: error.param ?? null,
          },
      });
    },
  };
}
