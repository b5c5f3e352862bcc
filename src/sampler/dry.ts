// DRY ("don't repeat yourself"): if the end of the text repeats an earlier passage, the token that continued that
// passage is penalised, more for a longer repetition: multiplier * base ^ (length - allowed length). A repetition does
// not extend past a sequence breaker. One pass over the window per token (the Z algorithm).

import type { TokenHistory } from "./history.js";

/** Larger than any logit, and far from overflowing f64. */
const LARGEST_DRY_PENALTY = 1e30;

/** The options of the DRY penalty. */
export interface DryOptions {
  readonly dryMultiplier: number;
  readonly dryBase: number;
  readonly dryAllowedLength: number;
  readonly dryPenaltyTokens: number;
  readonly dryBreakers: readonly (readonly number[])[];
}

/** A trie of breakers by their last token, then the one before it, and so on. */
interface BreakerNode {
  ends: boolean;
  readonly before: Map<number, BreakerNode>;
}

/** Whether the options turn the DRY penalty on. */
export function hasDry(options: DryOptions): boolean {
  return options.dryMultiplier > 0 && options.dryPenaltyTokens !== 0;
}

/** Computes the DRY penalties of a sequence. */
export class DryPenalties {
  readonly #options: DryOptions;
  readonly #breakers: BreakerNode = { ends: false, before: new Map() };
  readonly #penalties = new Map<number, number>();
  #matches = new Int32Array(0);

  constructor(options: DryOptions) {
    this.#options = options;
    for (const breaker of options.dryBreakers) {
      let node = this.#breakers;
      for (const token of [...breaker].reverse()) {
        let next = node.before.get(token);
        if (next === undefined) node.before.set(token, (next = { ends: false, before: new Map() }));
        node = next;
      }
      node.ends = true;
    }
  }

  /** The penalty to subtract from each token's logit after this history. The map is reused by the next call. */
  find(history: TokenHistory): ReadonlyMap<number, number> {
    const { dryMultiplier, dryBase, dryAllowedLength, dryPenaltyTokens } = this.#options;
    this.#penalties.clear();
    const window = dryPenaltyTokens < 0 ? history.length : Math.min(history.length, dryPenaltyTokens);
    if (window <= dryAllowedLength) return this.#penalties;
    const limit = this.#tokensSinceBreaker(history, window);
    if (limit < dryAllowedLength) return this.#penalties;
    this.#match(history, window);
    for (let distance = 1; distance < window; distance++) {
      const length = Math.min(this.#matches[distance], limit);
      if (length < dryAllowedLength) continue;
      const continuation = history.back(distance - 1);
      const penalty = Math.min(LARGEST_DRY_PENALTY, dryMultiplier * dryBase ** (length - dryAllowedLength));
      if (penalty > (this.#penalties.get(continuation) ?? 0)) this.#penalties.set(continuation, penalty);
    }
    return this.#penalties;
  }

  #tokensSinceBreaker(history: TokenHistory, window: number): number {
    for (let since = 0; since < window; since++) {
      let node: BreakerNode | undefined = this.#breakers;
      for (let distance = since; distance < window; distance++) {
        node = node.before.get(history.back(distance));
        if (node === undefined) break;
        if (node.ends) return since;
      }
    }
    return window;
  }

  /**
   * `matches[d]`: how many tokens, read backwards, the text ending d tokens ago has in common with the end of the text.
   */
  #match(history: TokenHistory, window: number): void {
    if (this.#matches.length < window) this.#matches = new Int32Array(Math.max(window, this.#matches.length * 2));
    const matches = this.#matches;
    let left = 0;
    let right = 0;
    for (let distance = 1; distance < window; distance++) {
      let length = distance < right ? Math.min(right - distance, matches[distance - left]) : 0;
      while (distance + length < window && history.back(length) === history.back(distance + length)) length += 1;
      matches[distance] = length;
      if (distance + length > right) {
        left = distance;
        right = distance + length;
      }
    }
  }
}
