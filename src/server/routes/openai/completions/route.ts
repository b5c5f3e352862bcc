// POST /v1/completions: one or more prompts, each with one or more texts after it.

import type { FastifyInstance } from "fastify";
import { answerHead, LAST_DATA, usageOf } from "../../../completion/response-head.js";
import { mapAtOnce, untilRoom } from "../../../completion/concurrency.js";
import { type CompletionSettings, deadlineOf, runCompletion } from "../../../completion/completion-run.js";
import {
  declareWork,
  type Exchange,
  type ServerContext,
  streamEvents,
  withModel,
} from "../../../completion/route-context.js";
import type { CompletionPiece, CompletionSummary, ServedModel } from "../../../../engine/serving.js";
import type { GrammarSpec } from "../../../../grammar/grammar-spec.js";
import { checkBias } from "../../../schema/fields.js";
import { checkCharacters, type Prompt, promptsOf, tokenList, tokensOf } from "../../../completion/prompt-field.js";
import { openAiErrorBody } from "../../../http/request-error.js";
import { formatOf } from "../../../schema/response-format.js";
import { addLogprobs, emptyLogprobs, finishReason, type TextLogprobs } from "./response.js";
import { type CompletionBody, completionForm, completionSettings } from "./request.js";

const ID_PREFIX = "cmpl-";

type CompletionExchange = Exchange<CompletionBody>;

interface Job {
  readonly prompts: readonly Prompt[];
  readonly settings: CompletionSettings;
  readonly format: GrammarSpec | undefined;
  readonly echo: boolean;
  readonly parseSpecial: boolean;
}

export function declareCompletions(app: FastifyInstance, context: ServerContext): void {
  const { limits, sampling, logPrompts } = context.options;
  declareWork(app, context, {
    url: "/v1/completions",
    form: completionForm(limits),
    handle: (exchange) => {
      const { body, request } = exchange;
      const prompts = promptsOf(body.prompt);
      checkCharacters(prompts, limits.promptCharacters, "prompt");
      if (logPrompts) request.log.info({ prompts }, "prompts");
      const job: Job = {
        prompts,
        settings: completionSettings(body, sampling),
        format: formatOf(body),
        echo: body.echo ?? false,
        parseSpecial: body.parse_special ?? true,
      };
      return body.stream === true ? stream(context, exchange, job) : answer(context, exchange, job);
    },
  });
}

/** `take` gets each piece with the number that its choice has in the answer; summaries come in the prompts' order. */
async function runPrompts(
  context: ServerContext,
  { work }: CompletionExchange,
  model: ServedModel,
  { prompts, settings, format, parseSpecial }: Job,
  take: (choice: number, piece: CompletionPiece) => Promise<void> | undefined,
): Promise<readonly CompletionSummary[]> {
  const deadlineMs = deadlineOf(context);
  // All of them are judged before one is begun.
  checkBias(settings.sampling, model.vocabularySize);
  const encoded = await tokensOf(context, work, model, { prompts, param: "prompt", room: 1, parseSpecial });
  using constraint =
    format === undefined ? undefined : await context.options.grammar.constraint(model, format, work.signal);
  return await mapAtOnce(work, encoded, (prompt, index) => {
    let begun = false;
    const attempt = async (): Promise<CompletionSummary> => {
      using own = constraint?.fork();
      return await runCompletion(
        context,
        work,
        model,
        { ...settings, prompt, prompts: prompts.length, deadlineMs, constraint: own },
        (piece) => {
          begun = true;
          return take(index * settings.choices + piece.choice, piece);
        },
      );
    };
    return untilRoom(attempt, { mayRepeat: () => index > 0 && !begun, signal: work.signal, deadlineMs });
  });
}

/** What was asked, to be shown before each answer. */
async function echoesOf(
  { tokenization, options: { limits } }: ServerContext,
  { work }: CompletionExchange,
  model: ServedModel,
  { prompts, echo }: Job,
): Promise<readonly string[]> {
  if (!echo) return prompts.map(() => "");
  // Those that are too long are refused when they are looked at.
  const lists = prompts.map((prompt) =>
    typeof prompt === "string" ? [] : prompt.slice(0, Math.min(limits.promptTokens, model.contextTokens)),
  );
  const texts = await tokenization.run(
    model,
    { kind: "decode", lists: lists.map((tokens) => tokenList(model, tokens, "prompt")) },
    work.signal,
  );
  return prompts.map((prompt, index) => (typeof prompt === "string" ? prompt : texts[index]));
}

function answer(context: ServerContext, exchange: CompletionExchange, job: Job): Promise<object> {
  const { choices: each, topLogprobs } = job.settings;
  return withModel(context, exchange, exchange.body.model, async (model) => {
    const echoes = await echoesOf(context, exchange, model, job);
    const texts = Array.from({ length: job.prompts.length * each }, (_, index) => echoes[Math.floor(index / each)]);
    const logprobs = texts.map(emptyLogprobs);
    const offsets = texts.map(() => 0);
    const summaries = await runPrompts(context, exchange, model, job, (choice, piece) => {
      texts[choice] += piece.text;
      offsets[choice] = addLogprobs(
        logprobs[choice] as TextLogprobs,
        piece,
        model.tokenizer,
        offsets[choice] as number,
      );
      return undefined;
    });
    const reasons = summaries.flatMap(({ choices }) => choices.map(finishReason));
    return {
      ...answerHead(ID_PREFIX, context, model),
      object: "text_completion",
      choices: texts.map((text, index) => ({
        index,
        text,
        logprobs: topLogprobs === undefined ? null : logprobs[index],
        finish_reason: reasons[index],
      })),
      usage: usageOf(...summaries),
    };
  });
}

function stream(context: ServerContext, exchange: CompletionExchange, job: Job): Promise<undefined> {
  const { choices: each, topLogprobs } = job.settings;
  const wantsUsage = exchange.body.stream_options?.include_usage === true;
  return streamEvents(
    context,
    exchange,
    (output) =>
      withModel(context, exchange, exchange.body.model, async (model) => {
        const head = { ...answerHead(ID_PREFIX, context, model), object: "text_completion" };
        const chunk = (index: number, text: string, logprobs: TextLogprobs | null, reason: string | null): object => ({
          ...head,
          choices: [{ index, text, logprobs, finish_reason: reason }],
          ...(wantsUsage ? { usage: null } : {}),
        });
        const echoes = await echoesOf(context, exchange, model, job);
        const offsets = new Map<number, number>();
        const summaries = await runPrompts(context, exchange, model, job, async (choice, piece) => {
          const offset = offsets.get(choice);
          const echo = offset === undefined ? echoes[Math.floor(choice / each)] : "";
          const logprobs = emptyLogprobs();
          offsets.set(choice, addLogprobs(logprobs, piece, model.tokenizer, offset ?? 0));
          const text = echo + piece.text;
          if (text !== "" || logprobs.tokens.length > 0)
            await output.send(chunk(choice, text, topLogprobs === undefined ? null : logprobs, null));
          if (piece.finished !== undefined) await output.send(chunk(choice, "", null, finishReason(piece.finished)));
        });
        if (wantsUsage) await output.send({ ...head, choices: [], usage: usageOf(...summaries) });
        await output.sendText(LAST_DATA);
      }),
    (output, error) => void output.send(openAiErrorBody(error)),
  );
}
