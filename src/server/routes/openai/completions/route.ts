// POST /v1/completions: one or more prompts, each with one or more texts generated after it.

import type { CompletionModel } from "../../../../completion/completion-model.js";
import { completePrompts, type PromptTask } from "../../../completion/prompt-completion.js";
import { checkPromptCharacters, type RequestPrompt, promptsOf, tokenList } from "../../../completion/prompt-field.js";
import { LAST_DATA, responseHead } from "../../../completion/response-head.js";
import {
  acquireModel,
  type Exchange,
  failStream,
  openEventStream,
  type PostRoute,
  type Route,
  sendAll,
  type ServerContext,
} from "../../../completion/route-context.js";
import { openAiErrorBody } from "../../../http/request-error.js";
import { formatOf } from "../../../schema/response-format.js";
import { type CompletionBody, completionRequestSchema, completionSettings } from "./request.js";
import { TextCompletionWriter } from "./response.js";

const ID_PREFIX = "cmpl-";

type CompletionExchange = Exchange<CompletionBody>;

/** The endpoint of OpenAI's Completions API. */
export function completions(context: ServerContext): readonly Route[] {
  const route: PostRoute<CompletionBody> = {
    method: "POST",
    path: "/v1/completions",
    summary: "Text after a prompt",
    schema: completionRequestSchema(context.options.limits),
    streams: true,
    handle: (exchange) => complete(context, exchange),
  };
  return [route];
}

async function complete(context: ServerContext, exchange: CompletionExchange): Promise<object | undefined> {
  const { body } = exchange;
  const task = taskOf(context, exchange);
  using output = body.stream === true ? openEventStream(context, exchange) : undefined;
  try {
    using lease = await acquireModel(context, exchange, body.model);
    const { model } = lease;
    const head = responseHead(ID_PREFIX, context, model);
    const echoes = await echoesOf(context, exchange, model, task.prompts);
    const writer = new TextCompletionWriter(head, {
      model,
      echoes: echoes.flatMap((echo) => Array.from({ length: task.settings.choices }, () => echo)),
      isStreamed: output !== undefined,
      hasLogprobs: body.logprobs !== undefined,
      hasUsage: body.stream_options?.include_usage === true,
    });
    const summaries = await completePrompts(context, exchange.inFlight, model, task, (choice, delta) =>
      sendAll(output, writer.add(choice, delta)),
    );
    if (output === undefined) return writer.response(summaries);
    await sendAll(output, writer.end(summaries));
    await output.sendText(LAST_DATA);
    return undefined;
  } catch (thrown) {
    return failStream(output, exchange, thrown, (error) => ({ ...openAiErrorBody(error) }));
  }
}

function taskOf(
  { options: { limits, sampling, logPrompts } }: ServerContext,
  exchange: CompletionExchange,
): PromptTask {
  const { body, request } = exchange;
  const prompts = promptsOf(body.prompt);
  checkPromptCharacters(prompts, limits.promptCharacters, "prompt");
  if (logPrompts) request.log.info({ prompts }, "prompts");
  return {
    prompts,
    settings: completionSettings(body, sampling),
    responseFormat: formatOf(body),
    parseSpecial: body.parse_special ?? true,
  };
}

/** The text that is repeated before each prompt's completions. */
async function echoesOf(
  { tokenization, options: { limits } }: ServerContext,
  { body, inFlight }: CompletionExchange,
  model: CompletionModel,
  prompts: readonly RequestPrompt[],
): Promise<readonly string[]> {
  if (body.echo !== true) return prompts.map(() => "");
  // Prompts that are too long are refused when they are checked.
  const lists = prompts.map((prompt) =>
    typeof prompt === "string" ? [] : prompt.slice(0, Math.min(limits.promptTokens, model.contextTokens)),
  );
  const call = { kind: "decode", lists: lists.map((tokens) => tokenList(model, tokens, "prompt")) } as const;
  const texts = await tokenization.run(model, call, inFlight.signal);
  return prompts.map((prompt, index) => (typeof prompt === "string" ? prompt : texts[index]));
}
