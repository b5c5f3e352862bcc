// Where a sequence of a model with recurrent layers keeps checkpoints: at the end of its prompt, at positions that the
// request names, and at regular distances. Later sequences with the same prefix continue from the longest of them.

/** Tokens between the checkpoints of a long text, rounded up to whole blocks. */
export const CHECKPOINT_TOKENS = 2048;
/** Tokens between the states that a decoding sequence keeps, of which only the last remain: an answer's end may change. */
const DECODE_CHECKPOINT_TOKENS = 32;

interface PositionOptions {
  readonly promptTokens: number;
  readonly blockTokens: number;
  /** Numbers of leading prompt tokens after which requests that follow are expected to differ. */
  readonly hints: readonly number[];
}

/** Decides after how many tokens of a sequence its recurrent states are kept. */
export class CheckpointPositions {
  /** The positions that the request names, without those outside of its prompt. */
  readonly hints: readonly number[];
  readonly #promptTokens: number;
  readonly #distance: number;
  readonly #decodeDistance: number;
  readonly #named: ReadonlySet<number>;

  constructor({ promptTokens, blockTokens, hints }: PositionOptions) {
    const blocksOf = (tokens: number): number => Math.ceil(tokens / blockTokens) * blockTokens;
    this.#promptTokens = promptTokens;
    this.#distance = blocksOf(CHECKPOINT_TOKENS);
    this.#decodeDistance = blocksOf(DECODE_CHECKPOINT_TOKENS);
    const within = hints.filter((tokens) => tokens > 0 && tokens < promptTokens);
    this.hints = within;
    // The same prompt again has its last token computed; without hints it continues right before that.
    this.#named = new Set([...(within.length > 0 ? within : [promptTokens - 1]), promptTokens]);
  }

  /** Whether the states after this many tokens are kept until they are evicted. */
  has(tokens: number): boolean {
    return tokens > 0 && (this.#named.has(tokens) || tokens % this.#distance === 0);
  }

  /** Whether the states after a step from `before` to `tokens` tokens are kept until the sequence has decoded more. */
  hasForNow(before: number, tokens: number): boolean {
    const distance = this.#decodeDistance;
    return tokens > this.#promptTokens && Math.floor(before / distance) < Math.floor(tokens / distance);
  }

  /** Positions after `start` and before `end`, in order. */
  between(start: number, end: number): readonly number[] {
    const regular = Math.max(0, Math.ceil((end - start) / this.#distance));
    const first = (Math.floor(start / this.#distance) + 1) * this.#distance;
    const all = Array.from({ length: regular }, (_, index) => first + index * this.#distance).concat(...this.#named);
    const within = all.filter((tokens) => tokens > start && tokens < end);
    return [...new Set(within)].sort((left, right) => left - right);
  }
}
