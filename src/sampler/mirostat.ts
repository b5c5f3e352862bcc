// Mirostat 2 (Basu et al.): instead of a fixed truncation, tokens with more than `maximum` bits of surprise are
// removed, and that maximum is adjusted after every token so that the surprise of the text stays near tau.

import type { Candidates } from "./candidates.js";
import { pick } from "./draw.js";
import type { RandomSource } from "./rng.js";

/** The state of Mirostat 2 for one sequence. */
export class Mirostat {
  readonly #tauBits: number;
  readonly #eta: number;
  #maximumBits: number;

  constructor(tauBits: number, eta: number) {
    this.#tauBits = tauBits;
    this.#eta = eta;
    this.#maximumBits = 2 * tauBits;
  }

  /** Chooses a token, adjusts the maximum by its surprise, and returns its id. */
  choose(candidates: Candidates, temperature: number, random: RandomSource): number {
    const total = candidates.weigh(temperature);
    let kept = 0;
    let keptTotal = 0;
    while (kept < candidates.length) {
      const weight = candidates.weights[candidates.rank(kept)];
      if (kept > 0 && !(-Math.log2(weight / total) <= this.#maximumBits)) break;
      keptTotal += weight;
      kept += 1;
    }
    candidates.keepBest(kept);
    const index = pick(candidates, keptTotal, random.next());
    const surpriseBits = -Math.log2(candidates.weights[index] / keptTotal);
    this.#maximumBits -= this.#eta * (surpriseBits - this.#tauBits);
    return candidates.ids[index];
  }
}
