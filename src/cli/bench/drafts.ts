// Decoding with drafts, for a benchmark: the engine generates greedily after a synthetic prompt, so that what drafts
// bring depends on how much the model repeats itself.

import type { LoadModelOptions } from "../../index.js";
import { openModel } from "../../model/load-model.js";
import { type Spread, spreadOf } from "./spread.js";

/** What is generated. */
interface DraftedWork {
  readonly path: string;
  readonly options: LoadModelOptions;
  readonly promptTokens: number;
  readonly decodeTokens: number;
  readonly repeat: number;
  readonly signal: AbortSignal;
}

/** Decoding with drafts, and how many draft tokens were accepted in all runs. */
export interface DraftedDecode {
  readonly spread: Spread;
  readonly draftedTokens: number;
  readonly acceptedTokens: number;
}

/** Generates as often as requested, after one run that loads the weights. */
export async function decodeWithDrafts(work: DraftedWork): Promise<DraftedDecode> {
  const { path, options, promptTokens, decodeTokens, repeat, signal } = work;
  await using model = await openModel(path, { ...options, contextTokens: promptTokens + decodeTokens + 2 });
  const prompt = Int32Array.from(
    { length: Math.max(1, promptTokens) },
    (_, index) => (index * 31) % model.vocabularySize,
  );
  const rates: number[] = [];
  let [draftedTokens, acceptedTokens] = [0, 0];
  for (let run = 0; run <= repeat; run++) {
    signal.throwIfAborted();
    const { timings } = await model.generate(prompt, {
      temperature: 0,
      maxTokens: decodeTokens + 1,
      ignoreEndOfGeneration: true,
      signal,
    }).result;
    if (run === 0) continue;
    rates.push(timings.tokensPerSecond);
    draftedTokens += timings.draftedTokens;
    acceptedTokens += timings.acceptedTokens;
  }
  return { spread: spreadOf(rates), draftedTokens, acceptedTokens };
}
