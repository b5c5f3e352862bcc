// One prompt on its way through the engine, as the server sees it: limits before, counts beside, a summary after.
// Invariants: the prompt leaves room for a token at least; an answer is never asked to be longer than the context has
// room for; limits of an answer are shared by all of its prompts and choices; the engine hears the work's signal.

import type { CompletionPiece, CompletionSummary, ServedModel, TokenConstraint } from "../../engine/serving.js";
import type { SamplerOptions } from "../../sampler/options.js";
import { charactersIn } from "../../tokenizer/tokenizer-call.js";
import type { TextSegment } from "../../tokenizer/tokenizer.js";
import type { ServerContext } from "./route-context.js";
import { checkBias } from "../schema/fields.js";
import type { ServerLimits } from "../http/limits.js";
import { refuseField, RequestError } from "../http/request-error.js";
import { exceedsTokens } from "./tokenization.js";
import { stoppingError, type Work } from "../http/request-tracker.js";

export interface CompletionSettings {
  readonly maxTokens: number | undefined;
  readonly sampling: Partial<SamplerOptions>;
  readonly stop: readonly string[];
  readonly choices: number;
  /** Undefined: none. */
  readonly topLogprobs: number | undefined;
  readonly ignoreEndOfGeneration: boolean;
}

export interface CompletionWork extends CompletionSettings {
  readonly prompt: Int32Array;
  /** How many prompts the answer has, this one included. */
  readonly prompts: number;
  /** When the answer must be written, by the process's clock (performance.now). */
  readonly deadlineMs: number;
  /** Stays its owner's. */
  readonly constraint: TokenConstraint | undefined;
  /** Control tokens whose text is shown. */
  readonly printedTokens?: ReadonlySet<number>;
  /** Called before the first piece with the number of prompt tokens taken from the prefix cache. */
  readonly onBegin?: (cachedTokens: number) => void;
}

/** Prompts' texts on their way to tokens, each in segments, and the field they came in. */
export interface PromptTexts {
  readonly texts: readonly (readonly TextSegment[])[];
  readonly addSpecial: boolean;
  readonly param: string;
}

/** Encodes prompts, whose length has been judged: the one place where a prompt's segments become tokens. */
export async function encodePrompts(
  context: ServerContext,
  work: Work,
  model: ServedModel,
  { texts, addSpecial }: PromptTexts,
): Promise<readonly Int32Array[]> {
  if (texts.length === 0) return [];
  return await context.tokenization.run(model, { kind: "encode", texts, addSpecial }, work.signal);
}

/** Refuses what cannot fit, before it is encoded; `room` tokens at least are to be written. */
export function checkTexts(
  { options: { limits } }: ServerContext,
  model: ServedModel,
  { texts, param }: Pick<PromptTexts, "texts" | "param">,
  room: number,
): void {
  const most = mostPromptTokens(limits, model, room);
  for (const segments of texts) {
    const length = charactersIn(segments);
    if (exceedsTokens(model, length, most))
      throw tooLong(param, `at most ${most} tokens, found ${length} characters, which are more than these can have`);
  }
}

/** A prompt as its client knows it. */
export interface CheckedPrompt {
  readonly tokens: { readonly length: number };
  /** The field it came in. */
  readonly param: string;
}

/** Before anything is begun that costs more than this. */
export function checkCompletion(
  context: ServerContext,
  model: ServedModel,
  prompt: CheckedPrompt,
  sampling: Partial<SamplerOptions>,
): void {
  checkPrompt(context, model, prompt, 1);
  checkBias(sampling, model.vocabularySize);
}

/** `room` tokens at least are to be written. */
export function checkPrompt(
  { options: { limits } }: ServerContext,
  model: ServedModel,
  { tokens, param }: CheckedPrompt,
  room: number,
): void {
  const most = mostPromptTokens(limits, model, room);
  if (tokens.length === 0) refuseField(param, "a token at least", "none");
  if (tokens.length > most) throw tooLong(param, `at most ${most} tokens, found ${tokens.length}`);
}

function mostPromptTokens({ promptTokens }: ServerLimits, { contextTokens }: ServedModel, room: number): number {
  return Math.min(promptTokens, contextTokens - room);
}

function tooLong(param: string, expectation: string): RequestError {
  return new RequestError(`[${param}] expected ${expectation}; shorten it`, {
    status: 400,
    code: "context_length_exceeded",
    param,
  });
}

/** When an answer that is begun now must be written. */
export function deadlineOf({ options: { limits } }: ServerContext): number {
  return performance.now() + limits.timeLimitMs;
}

/** Takes a piece; `leave` ends its choice, of which nothing more is told. */
export type PieceTaker = (piece: CompletionPiece, leave: () => void) => Promise<void> | undefined;

/** Hands on the pieces of a completion that has been checked, as they come. What `take` throws cancels the completion. */
export async function runCompletion(
  context: ServerContext,
  work: Work,
  model: ServedModel,
  { prompt, constraint, printedTokens, onBegin, ...settings }: CompletionWork,
  take: PieceTaker,
): Promise<CompletionSummary> {
  const { limits } = context.options;
  const completion = model.complete({
    prompt,
    maxTokens: Math.min(
      settings.maxTokens ?? Infinity,
      model.contextTokens - prompt.length,
      mostTokens(limits, settings),
    ),
    sampling: settings.sampling,
    stop: settings.stop,
    choices: settings.choices,
    ...(settings.topLogprobs === undefined ? {} : { topLogprobs: settings.topLogprobs }),
    ...(constraint === undefined ? {} : { constraint }),
    ...(printedTokens === undefined ? {} : { printedTokens }),
    ignoreEndOfGeneration: settings.ignoreEndOfGeneration,
    timeLimitMs: Math.max(1, Math.floor(settings.deadlineMs - performance.now())),
    signal: work.signal,
  });
  // Counted also when nobody waits for it any more; who waits sees the failure below.
  completion.summary.then(
    (summary) => context.metrics.countCompletion(model.name, summary),
    () => {},
  );
  const gaps = new TokenGaps((milliseconds) => context.metrics.countTokenGap(model.name, milliseconds));
  const left = new Set<number>();
  let begun = false;
  for await (const piece of completion) {
    work.signal.throwIfAborted();
    if (!begun) onBegin?.(completion.cachedTokens ?? 0);
    begun = true;
    gaps.tick(piece);
    const { choice } = piece;
    if (left.has(choice)) continue;
    await take(piece, () => {
      left.add(choice);
      completion.cancel(choice);
    });
  }
  work.signal.throwIfAborted();
  const summary = await completion.summary;
  // Not by us: the engine has been told to end.
  if (summary.choices.some(({ reason }, choice) => reason === "abort" && !left.has(choice))) throw stoppingError();
  return summary;
}

function mostTokens(
  { outputTokens, logprobEntries }: ServerLimits,
  { topLogprobs, choices, prompts }: Omit<CompletionWork, "prompt" | "constraint">,
): number {
  if (topLogprobs === undefined) return outputTokens;
  return Math.max(1, Math.min(outputTokens, Math.floor(logprobEntries / (prompts * choices * (1 + topLogprobs)))));
}

/** The time from a choice's token to its next one, as the engine wrote them: a slow reader gets several in one piece. */
class TokenGaps {
  readonly #last: number[] = [];
  readonly #report: (milliseconds: number) => void;

  constructor(report: (milliseconds: number) => void) {
    this.#report = report;
  }

  tick({ choice, tokens, atMs }: CompletionPiece): void {
    if (tokens.length === 0) return;
    const last = this.#last[choice];
    this.#last[choice] = atMs;
    if (last === undefined) return;
    for (let count = 0; count < tokens.length; count++) this.#report((atMs - last) / tokens.length);
  }
}
