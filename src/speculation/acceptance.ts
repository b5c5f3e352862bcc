// How often drafts prove right, per class of drafts: a running mean over what really followed, so that drafts that were
// proposed and not verified count, too.

const WEIGHT = 0.12;
/** Of a class that is not drafted because it fails: how fast it is worth another try. */
const FORGETTING = 0.01;

/** A proposed draft that is compared with the tokens that follow. */
interface Expectation {
  readonly tokens: Int32Array;
  readonly confidence: number;
  /** Length of the text when it was proposed. */
  readonly position: number;
}

/** The acceptance of one sequence's drafts. */
export class Acceptance {
  readonly #first: readonly number[];
  readonly #means: number[];
  #expected: Expectation | undefined;

  constructor(first: readonly number[]) {
    this.#first = first;
    this.#means = [...first];
  }

  /** Probability that a draft token of a class is accepted if those before it were. */
  of(confidence: number): number {
    return this.#means[confidence];
  }

  /** Remembers a draft, whether it will be verified or not. */
  expect(tokens: Int32Array, confidence: number, position: number): void {
    this.#expected = { tokens, confidence, position };
  }

  /** Compares the last draft with the text as it went on. */
  observe(text: Int32Array): void {
    const expected = this.#expected;
    this.#expected = undefined;
    if (expected === undefined) return;
    const { tokens, confidence, position } = expected;
    for (let index = 0; index < tokens.length && position + index < text.length; index++) {
      if (tokens[index] !== text[position + index]) return this.miss(confidence);
      this.#means[confidence] += (1 - this.#means[confidence]) * WEIGHT;
    }
  }

  /** Counts a draft token as wrong, or a drafter that found none. */
  miss(confidence: number): void {
    this.#means[confidence] -= this.#means[confidence] * WEIGHT;
  }

  /** A draft of a class was not made because it would not pay. */
  skip(confidence: number): void {
    this.#means[confidence] += (this.#first[confidence] - this.#means[confidence]) * FORGETTING;
  }
}
