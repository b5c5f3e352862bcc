// Greedy decoding of one sequence that nothing disturbs, step by step without an engine: what an engine's texts are compared
// with.

import type { Model } from "../../../src/model/model.js";

/** The best `count` tokens after the prompt, in a cache with `contextTokens` positions of all layers. */
export async function undisturbedTokens(
  { plan }: Pick<Model, "plan">,
  prompt: Int32Array,
  { count, contextTokens }: { readonly count: number; readonly contextTokens: number },
): Promise<number[]> {
  using cache = plan.createKvCache(contextTokens);
  const tokens: number[] = [];
  let logits = await plan.decode(prompt, 0, cache);
  while (tokens.length < count) {
    const best = logits.indexOf(Math.max(...logits));
    tokens.push(best);
    if (tokens.length < count)
      logits = await plan.decode(Int32Array.of(best), prompt.length + tokens.length - 1, cache);
  }
  return tokens;
}
