// POST /v1/responses.

import type { FastifyInstance } from "fastify";
import { type ChatJob, eachEvent, withChat } from "../chat-run.js";
import { declareWork, type Exchange, type ServerContext, streamEvents } from "../context.js";
import type { EventStream } from "../event-stream.js";
import { type ResponseEvent, ResponseWriter } from "./events.js";
import { type ResponseBody, responseForm, responseJob } from "./form.js";

export function declareResponses(app: FastifyInstance, context: ServerContext): void {
  declareWork(app, context, {
    url: "/v1/responses",
    form: responseForm(context.options.limits),
    handle: (exchange) => {
      const job = responseJob(exchange.body, context.options.sampling);
      return exchange.body.stream === true ? stream(context, exchange, job) : answer(context, exchange, job);
    },
  });
}

function answer(context: ServerContext, exchange: Exchange<ResponseBody>, job: ChatJob): Promise<object> {
  return withChat(context, exchange, job, async (run) => {
    const writer = new ResponseWriter(exchange.body, run.model.name, run.model.tokenizer);
    const outcome = await eachEvent(run, (event) => {
      exhaust(writer.add(event));
      return undefined;
    });
    exhaust(writer.end(outcome));
    return writer.answer(outcome.endings[0]?.reason === "length", outcome.summary);
  });
}

function exhaust(events: Iterable<ResponseEvent>): void {
  for (const _ of events);
}

function stream(context: ServerContext, exchange: Exchange<ResponseBody>, job: ChatJob): Promise<undefined> {
  let writer: ResponseWriter | undefined;
  return streamEvents(
    context,
    exchange,
    (output) =>
      withChat(context, exchange, job, async (run) => {
        const own = new ResponseWriter(exchange.body, run.model.name, run.model.tokenizer);
        const begin = async (): Promise<void> => {
          if (writer !== undefined) return;
          writer = own;
          await sendAll(output, own.begin());
        };
        const outcome = await eachEvent(run, async (event) => {
          await begin();
          await sendAll(output, own.add(event));
        });
        await begin();
        await sendAll(output, own.end(outcome));
      }),
    (output, error) => {
      if (writer !== undefined) void sendAll(output, writer.fail(error));
      else void output.send({ type: "error", sequence_number: 0, code: error.code, message: error.message, param: error.param ?? null }, "error");
    },
  );
}

async function sendAll(output: EventStream, events: Iterable<ResponseEvent>): Promise<void> {
  for (const event of events) await output.send(event, event.type);
}
