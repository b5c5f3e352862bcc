// POST /v1/chat/completions.

import type { FastifyInstance } from "fastify";
import { type ChatJob, eachEvent, withChat } from "../chat-run.js";
import { declareWork, type Exchange, type ServerContext, streamEvents } from "../context.js";
import { openAiErrorBody } from "../request-error.js";
import { type AnswerHead, chatCompletion, ChatChunks, makeId, nowSeconds, WrittenChoice } from "./answer.js";
import { type ChatCompletionBody, chatCompletionForm, chatCompletionJob } from "./form.js";

const LAST_EVENT = "[DONE]";

export function declareChatCompletions(app: FastifyInstance, context: ServerContext): void {
  declareWork(app, context, {
    url: "/v1/chat/completions",
    form: chatCompletionForm(context.options.limits),
    handle: (exchange) => {
      const job = chatCompletionJob(exchange.body, context.options.sampling);
      return exchange.body.stream === true ? stream(context, exchange, job) : answer(context, exchange, job);
    },
  });
}

function headOf(model: string): AnswerHead {
  return { id: makeId("chatcmpl-"), created: nowSeconds(), model };
}

function answer(context: ServerContext, exchange: Exchange<ChatCompletionBody>, job: ChatJob): Promise<object> {
  return withChat(context, exchange, job, async (run) => {
    const { model } = run;
    const choices = Array.from({ length: job.choices }, () => new WrittenChoice());
    const outcome = await eachEvent(run, (event) => {
      choices[event.choice]?.add(event, model.tokenizer);
      return undefined;
    });
    return chatCompletion(headOf(model.name), choices, outcome, job.topLogprobs !== undefined);
  });
}

function stream(context: ServerContext, exchange: Exchange<ChatCompletionBody>, job: ChatJob): Promise<undefined> {
  const usage = exchange.body.stream_options?.include_usage === true;
  return streamEvents(
    context,
    exchange,
    (output) =>
      withChat(context, exchange, job, async (run) => {
        const { model } = run;
        const chunks = new ChatChunks(headOf(model.name), model.tokenizer, { logprobs: job.topLogprobs !== undefined, usage });
        const outcome = await eachEvent(run, async (event) => {
          for (const chunk of chunks.of(event)) await output.send(chunk);
        });
        for (const chunk of chunks.end(outcome)) await output.send(chunk);
        await output.sendText(LAST_EVENT);
      }),
    (output, error) => void output.send(openAiErrorBody(error)),
  );
}
