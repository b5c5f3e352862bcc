// How long requests run, and so when a request that was refused may find room.

const FIRST_GUESS_MS = 2000;
const SHORTEST_RETRY_MS = 1000;
const LONGEST_RETRY_MS = 60_000;
/** How much the last request counts in the mean. */
const WEIGHT = 0.1;

/** The mean running time of requests, and what follows for those that wait. */
export class Turnover {
  readonly #sequences: number;
  #meanMs = FIRST_GUESS_MS;

  constructor(sequences: number) {
    this.#sequences = sequences;
  }

  note(runningMs: number): void {
    this.#meanMs += (runningMs - this.#meanMs) * WEIGHT;
  }

  retryAfterMs(queued: number): number {
    return Math.min(LONGEST_RETRY_MS, Math.max(SHORTEST_RETRY_MS, (this.#meanMs * queued) / this.#sequences / 2));
  }
}
