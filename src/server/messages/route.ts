// POST /v1/messages and /v1/messages/count_tokens, in Anthropic's form.

import type { FastifyInstance } from "fastify";
import { type ChatJob, eachEvent, renderChat, withChat } from "../chat-run.js";
import { declareWork, type Exchange, type ServerContext, streamEvents, withModel } from "../context.js";
import type { EventStream } from "../event-stream.js";
import { anthropicErrorBody } from "../request-error.js";
import { type MessageEvent, MessageWriter } from "./events.js";
import { countForm, type MessageBody, messageForm, messageJob, messagePrompt } from "./form.js";

export function declareMessages(app: FastifyInstance, context: ServerContext): void {
  const { limits, sampling } = context.options;
  declareWork(app, context, {
    url: "/v1/messages",
    form: messageForm(limits),
    handle: (exchange) => {
      const job = messageJob(exchange.body, sampling);
      return exchange.body.stream === true ? stream(context, exchange, job) : answer(context, exchange, job);
    },
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

function answer(context: ServerContext, exchange: Exchange<MessageBody>, job: ChatJob): Promise<object> {
  return withChat(context, exchange, job, async (run) => {
    const writer = new MessageWriter(run.model.name, run.promptTokens);
    const outcome = await eachEvent(run, (event) => {
      exhaust(writer.add(event));
      return undefined;
    });
    exhaust(writer.end(outcome));
    return writer.answer(outcome);
  });
}

function exhaust(events: Iterable<MessageEvent>): void {
  for (const _ of events);
}

function stream(context: ServerContext, exchange: Exchange<MessageBody>, job: ChatJob): Promise<undefined> {
  return streamEvents(
    context,
    exchange,
    (output) =>
      withChat(context, exchange, job, async (run) => {
        const writer = new MessageWriter(run.model.name, run.promptTokens);
        let begun = false;
        const begin = async (): Promise<void> => {
          if (begun) return;
          begun = true;
          await sendAll(output, writer.begin());
        };
        const outcome = await eachEvent(run, async (event) => {
          await begin();
          await sendAll(output, writer.add(event));
        });
        await begin();
        await sendAll(output, writer.end(outcome));
      }),
    (output, error) => void output.send(anthropicErrorBody(error, exchange.request.id), "error"),
  );
}

async function sendAll(output: EventStream, events: Iterable<MessageEvent>): Promise<void> {
  for (const event of events) await output.send(event, event.type);
}
