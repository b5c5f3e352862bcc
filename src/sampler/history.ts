// The tokens of a sequence so far, prompt included, and how often each occurs in a window of the last tokens. It grows
// with the sequence, up to the context length.

const FIRST_CAPACITY = 256;

/** The tokens of a sequence, with counts over a window. */
export class TokenHistory {
  readonly #windowTokens: number;
  readonly #counts = new Map<number, number>();
  #tokens = new Int32Array(FIRST_CAPACITY);
  #length = 0;

  /** Counts cover the last `windowTokens`; -1 covers everything, 0 nothing. */
  constructor(windowTokens: number) {
    this.#windowTokens = windowTokens;
  }

  /** An independent copy of the history. */
  copy(): TokenHistory {
    const twin = new TokenHistory(this.#windowTokens);
    for (const [token, count] of this.#counts) twin.#counts.set(token, count);
    twin.#tokens = this.#tokens.slice();
    twin.#length = this.#length;
    return twin;
  }

  /** How often each token occurs in the window. */
  get counts(): ReadonlyMap<number, number> {
    return this.#counts;
  }

  get length(): number {
    return this.#length;
  }

  /** The token `distance` tokens before the last one. */
  back(distance: number): number {
    return this.#tokens[this.#length - 1 - distance];
  }

  push(token: number): void {
    if (this.#length === this.#tokens.length) {
      const larger = new Int32Array(this.#tokens.length * 2);
      larger.set(this.#tokens);
      this.#tokens = larger;
    }
    this.#tokens[this.#length] = token;
    this.#length += 1;
    if (this.#windowTokens === 0) return;
    this.#counts.set(token, (this.#counts.get(token) ?? 0) + 1);
    if (this.#windowTokens > 0 && this.#length > this.#windowTokens) this.#forget(this.back(this.#windowTokens));
  }

  #forget(token: number): void {
    const left = (this.#counts.get(token) ?? 0) - 1;
    if (left > 0) this.#counts.set(token, left);
    else this.#counts.delete(token);
  }
}
