// Drafts from the text itself: finds the last tokens earlier in prompt or answer, and proposes what followed there. A
// match that goes on is followed without a search. Constant work per token and bounded memory: a table of positions by
// the hash of the tokens before them, checked against the text, in which recent positions replace older ones.

import type { Draft, TextDrafter } from "./drafter.js";

/** Numbers of last tokens that are searched for, longest first. */
const LENGTHS = [4, 3, 2] as const;
const LONGEST = LENGTHS[0];
/** A followed match of at least this many tokens is a passage that is being repeated. */
const PASSAGE_TOKENS = 8;
/** The largest table is 1 MiB: beyond some 90,000 tokens, old positions are lost. */
const LARGEST_TABLE = 2 ** 18;
const FIRST_TABLE = 2 ** 10;
/** Tokens of a prompt that one call indexes, about 0.3 ms: a long prompt is indexed over several steps. */
const INDEXED_AT_ONCE = 8192;

/** Of each confidence class (matches of 2, 3, 4 and of 8 or more tokens) the acceptance that is assumed first. */
const FIRST_ACCEPTANCE: readonly number[] = [0.3, 0.5, 0.7, 0.85];

/** Proposes what followed an earlier occurrence of the text's last tokens. */
export class NgramDrafter implements TextDrafter {
  readonly firstAcceptance = FIRST_ACCEPTANCE;
  /** The position after each indexed n-gram, by its hash; 0 is empty. */
  #table = new Int32Array(FIRST_TABLE);
  #entries = 0;
  /** N-grams that end before this position are indexed. */
  #indexed = 0;
  /** How many tokens of the text were followed, the position that may be repeated next, and how many agreed so far. */
  #seen = 0;
  #source = -1;
  #agreed = 0;

  draft(tokens: Int32Array, most: number): Draft | undefined {
    this.#follow(tokens);
    this.#index(tokens);
    if (this.#agreed < LONGEST) this.#search(tokens);
    if (this.#source < 0 || most <= 0) return undefined;
    const length = tokens.length;
    const draft = new Int32Array(most);
    // Past the end of the text, the draft repeats itself.
    for (let index = 0; index < most; index++) {
      const position = this.#source + index;
      draft[index] = position < length ? tokens[position] : draft[position - length];
    }
    return { tokens: draft, confidence: confidenceOf(this.#agreed) };
  }

  /** Compares what came since with what the followed match predicted. */
  #follow(tokens: Int32Array): void {
    for (; this.#source >= 0 && this.#seen < tokens.length; this.#seen++) {
      if (tokens[this.#source] === tokens[this.#seen]) {
        this.#source++;
        this.#agreed++;
      } else this.#forget();
    }
    this.#seen = tokens.length;
  }

  #forget(): void {
    this.#source = -1;
    this.#agreed = 0;
  }

  /** Adds the n-grams that end before the last token: the last ones are what is searched for. */
  #index(tokens: Int32Array): void {
    const end = Math.min(tokens.length - 1, this.#indexed + INDEXED_AT_ONCE);
    for (; this.#indexed < end; this.#indexed++) {
      if (this.#entries > this.#table.length / 2 && this.#table.length < LARGEST_TABLE) this.#grow(tokens);
      this.#add(tokens, this.#indexed + 1);
    }
  }

  #add(tokens: Int32Array, position: number): void {
    for (const length of LENGTHS) {
      if (length > position) continue;
      const place = hashBefore(tokens, position, length) & (this.#table.length - 1);
      if (this.#table[place] === 0) this.#entries++;
      this.#table[place] = position;
    }
  }

  /** Amortised over the tokens that filled the smaller table. */
  #grow(tokens: Int32Array): void {
    this.#table = new Int32Array(this.#table.length * 4);
    this.#entries = 0;
    for (let position = 1; position <= this.#indexed; position++) this.#add(tokens, position);
  }

  /** Looks up the longest n-gram at the end of the text; keeps a followed match that is as long. */
  #search(tokens: Int32Array): void {
    for (const length of LENGTHS) {
      if (length <= this.#agreed || length > tokens.length) continue;
      const position = this.#table[hashBefore(tokens, tokens.length, length) & (this.#table.length - 1)];
      if (position === 0 || !isSameBefore(tokens, position, tokens.length, length)) continue;
      this.#source = position;
      this.#agreed = length;
      return;
    }
  }
}

function confidenceOf(agreed: number): number {
  if (agreed >= PASSAGE_TOKENS) return 3;
  return agreed >= 4 ? 2 : agreed - 2;
}

function hashBefore(tokens: Int32Array, position: number, length: number): number {
  let hash = length;
  for (let index = position - length; index < position; index++) {
    hash = Math.imul(hash ^ tokens[index], 0x9e3779b1);
    hash ^= hash >>> 15;
  }
  return hash;
}

function isSameBefore(tokens: Int32Array, left: number, right: number, length: number): boolean {
  for (let distance = 1; distance <= length; distance++)
    if (tokens[left - distance] !== tokens[right - distance]) return false;
  return true;
}
