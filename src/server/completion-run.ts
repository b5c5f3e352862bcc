// One prompt on its way through the engine, as the server sees it: limits before, counts beside, a summary after.
// Invariants: the prompt leaves room for a token at least; an answer is never asked to be longer than the context has
// room for; the engine hears the work's signal.

import type { CompletionPiece, CompletionSummary, ServedModel, TokenConstraint } from "../engine/serving.js";
import type { SamplerOptions } from "../sampler/options.js";
import type { ServerContext } from "./context.js";
import { checkBias } from "./fields.js";
import type { ServerLimits } from "./limits.js";
import { RequestError } from "./request-error.js";
import { stoppingError, type Work } from "./work.js";

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
  /** Stays its owner's. */
  readonly constraint: TokenConstraint | undefined;
  /** Control tokens whose text is shown. */
  readonly printedTokens?: ReadonlySet<number>;
}

/** Encodes a prompt's text, whose length has been judged. */
export function encodePrompt(model: ServedModel, text: string, addSpecial: boolean): Int32Array {
  return model.tokenizer.encode(text, { addSpecial });
}

/** Before anything is begun that costs more than this. */
export function checkCompletion(context: ServerContext, model: ServedModel, prompt: Int32Array, sampling: Partial<SamplerOptions>): void {
  checkPrompt(context, model, prompt);
  checkBias(sampling, model.vocabularySize);
}

export function checkPrompt({ options: { limits } }: ServerContext, model: ServedModel, prompt: Int32Array): void {
  // One token at least is to be written.
  const most = Math.min(limits.promptTokens, model.contextTokens - 1);
  if (prompt.length === 0) {
    throw new RequestError("[prompt] expected a token at least, found none", { status: 400, code: "invalid_value", param: "prompt" });
  }
  if (prompt.length <= most) return;
  throw new RequestError(`[prompt] expected at most ${most} tokens, found ${prompt.length}; shorten the prompt`, {
    status: 400,
    code: "context_length_exceeded",
  });
}

/** The pieces of a completion that has been checked, as they come; returns the summary. Leaving the loop cancels the completion. */
export async function* runCompletion(
  context: ServerContext,
  work: Work,
  model: ServedModel,
  { prompt, constraint, printedTokens, ...settings }: CompletionWork,
): AsyncGenerator<CompletionPiece, CompletionSummary, undefined> {
  const { limits } = context.options;
  const completion = model.complete({
    prompt,
    maxTokens: Math.min(settings.maxTokens ?? Infinity, model.contextTokens - prompt.length, mostTokens(limits, settings)),
    sampling: settings.sampling,
    stop: settings.stop,
    choices: settings.choices,
    ...(settings.topLogprobs === undefined ? {} : { topLogprobs: settings.topLogprobs }),
    ...(constraint === undefined ? {} : { constraint }),
    ...(printedTokens === undefined ? {} : { printedTokens }),
    ignoreEndOfGeneration: settings.ignoreEndOfGeneration,
    timeLimitMs: limits.timeLimitMs,
    signal: work.signal,
  });
  // Counted also when nobody waits for it any more; who waits sees the failure below.
  completion.summary.then(
    (summary) => context.metrics.countCompletion(model.name, summary),
    () => {},
  );
  const gaps = new TokenGaps((milliseconds) => context.metrics.countTokenGap(model.name, milliseconds));
  for await (const piece of completion) {
    work.signal.throwIfAborted();
    if (piece.tokens.length > 0) gaps.tick(piece.choice);
    yield piece;
  }
  work.signal.throwIfAborted();
  const summary = await completion.summary;
  // Not by us: the engine has been told to end.
  if (summary.choices.some(({ reason }) => reason === "abort")) throw stoppingError();
  return summary;
}

function mostTokens({ outputTokens, logprobEntries }: ServerLimits, { topLogprobs, choices }: CompletionSettings): number {
  if (topLogprobs === undefined) return outputTokens;
  return Math.max(1, Math.min(outputTokens, Math.floor(logprobEntries / (choices * (1 + topLogprobs)))));
}

/** The time from a choice's piece to its next one. */
class TokenGaps {
  readonly #last: number[] = [];
  readonly #report: (milliseconds: number) => void;

  constructor(report: (milliseconds: number) => void) {
    this.#report = report;
  }

  tick(choice: number): void {
    const now = performance.now();
    const last = this.#last[choice];
    this.#last[choice] = now;
    if (last !== undefined) this.#report(now - last);
  }
}
