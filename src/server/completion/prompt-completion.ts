// Completions of raw prompts, without a chat template: tokenized, constrained by a grammar, and run a few at a time.

import type { CompletionDelta, CompletionModel, CompletionSummary } from "../../completion/completion-model.js";
import { CompletionRun, type CompletionSettings } from "../../completion/completion-run.js";
import { checkLogitBias } from "../../completion/request-check.js";
import type { GrammarSpec } from "../../grammar/grammar-spec.js";
import type { InFlightRequest } from "../http/request-tracker.js";
import { mapConcurrently, untilQueueHasRoom } from "./concurrency.js";
import { type RequestPrompt, tokensOf } from "./prompt-field.js";
import type { ServerContext } from "./route-context.js";

/** Prompts, and how each of them is completed. */
export interface PromptTask {
  readonly prompts: readonly RequestPrompt[];
  readonly settings: CompletionSettings & { readonly choices: number };
  readonly responseFormat: GrammarSpec | undefined;
  /** Whether the text of special tokens becomes these tokens. */
  readonly parseSpecial: boolean;
}

/**
 * Completes raw prompts. `take` gets each delta with the number that its choice has in the response; summaries come in the
 * prompts' order.
 */
export async function completePrompts(
  context: ServerContext,
  inFlight: InFlightRequest,
  model: CompletionModel,
  { prompts, settings, responseFormat, parseSpecial }: PromptTask,
  take: (choice: number, delta: CompletionDelta) => Promise<void>,
): Promise<readonly CompletionSummary[]> {
  const { signal } = inFlight;
  const { limits, grammar } = context.options;
  const deadlineMs = performance.now() + limits.timeLimitMs;
  // All prompts are checked before any of them is started.
  checkLogitBias(settings.sampling ?? {}, model.vocabularySize);
  const requested = { prompts, field: "prompt", reservedTokens: 1, parseSpecial };
  const encoded = await tokensOf(context, model, requested, signal);
  using constraint = responseFormat === undefined ? undefined : await grammar.constraint(model, responseFormat, signal);
  return await mapConcurrently(inFlight, encoded, (prompt, index) => {
    let hasBegun = false;
    const attempt = async (): Promise<CompletionSummary> => {
      using own = constraint?.fork();
      const task = { ...settings, prompt, prompts: prompts.length, deadlineMs, constraint: own, signal };
      const run = new CompletionRun(model, task, { limits, observer: context.metrics });
      for await (const delta of run) {
        hasBegun = true;
        await take(index * settings.choices + delta.choice, delta);
      }
      return await run.summary();
    };
    return untilQueueHasRoom(attempt, { mayRetry: () => index > 0 && !hasBegun, signal, deadlineMs });
  });
}
