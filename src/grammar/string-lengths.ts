// Lengths of strings while a text grows: counts characters since the last quote, asks at which limits the grammar stands
// (marks, see json-rules.ts), and takes from a mask the tokens that would break them. Invariant: what is left always
// holds a way on, since characters and quotes can be written by themselves.

import type { LengthLimit } from "./json-rules.js";
import type { PackedVocabulary } from "./packed-vocabulary.js";

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const LETTER_D = 0x64;
const LETTER_U = 0x75;
const NO_LENGTH = 0xffff;

/** A walk over bytes of JSON. */
class Walk {
  characters = 0;
  /** 0 outside an escape, 1 behind its backslash, 2 to 5 with so many less one of its hexadecimal digits to come. */
  escape = 0;
  /** How much of the escape of a first surrogate was seen: its "d", then all that tells. The second one counts nothing. */
  #surrogate = 0;

  /** Behind the escape of a first surrogate: the second one belongs to the same character. */
  get isHalf(): boolean {
    return this.escape === 0 && this.#surrogate === 2;
  }

  copyEscape(other: Walk): void {
    this.escape = other.escape;
    this.#surrogate = other.#surrogate;
  }

  /** True for a quote that is not escaped. */
  step(byte: number): boolean {
    if (this.escape === 1) {
      this.escape = byte === LETTER_U ? 5 : 0;
    } else if (this.escape > 1) {
      // "d" and one of "89ab", whether small or large.
      if (this.escape === 5) this.#surrogate = this.#surrogate === 2 ? 0 : (byte | 0x20) === LETTER_D ? 1 : 0;
      else if (this.escape === 4 && this.#surrogate === 1) this.#surrogate = isFirstHalf(byte) ? 2 : 0;
      this.escape = this.escape === 2 ? 0 : this.escape - 1;
    } else if (byte === QUOTE) {
      this.characters = 0;
      return true;
    } else {
      if (byte === BACKSLASH) this.escape = 1;
      // Bytes inside a character begin with 10.
      if ((byte & 0xc0) !== 0x80 && !(byte === BACKSLASH && this.#surrogate === 2)) this.characters++;
    }
    return false;
  }
}

function isFirstHalf(byte: number): boolean {
  return byte === 0x38 || byte === 0x39 || (byte | 0x20) === 0x61 || (byte | 0x20) === 0x62;
}

/** What the tokens of a vocabulary do to the length of a string; made once for each vocabulary. */
export class TokenLengths {
  readonly vocabulary: PackedVocabulary;
  /** Characters before the first quote, where the token begins outside an escape. */
  readonly before: Uint16Array;
  /** Tokens by that number, the largest first. */
  readonly longestFirst: Uint32Array;
  /** The ones that hold a quote, with the longest stretch behind the first and the shortest between two. */
  readonly quoting: readonly { readonly token: number; readonly longest: number; readonly shortestClosed: number }[];

  constructor(vocabulary: PackedVocabulary) {
    const { size, offsets, bytes } = vocabulary;
    this.vocabulary = vocabulary;
    this.before = new Uint16Array(size);
    const quoting = [];
    for (let token = 0; token < size; token++) {
      const walk = new Walk();
      let before = -1;
      let longest = 0;
      let shortestClosed = NO_LENGTH;
      let previous = 0;
      for (let at = offsets[token] as number; at < (offsets[token + 1] as number); at++) {
        previous = walk.characters;
        if (!walk.step(bytes[at] as number)) continue;
        if (before === -1) {
          before = previous;
        } else {
          longest = Math.max(longest, previous);
          shortestClosed = Math.min(shortestClosed, previous);
        }
      }
      this.before[token] = Math.min(NO_LENGTH, before === -1 ? walk.characters : before);
      if (before === -1) continue;
      quoting.push({ token, longest: Math.max(longest, walk.characters), shortestClosed });
    }
    this.quoting = quoting;
    this.longestFirst = Uint32Array.from({ length: size }, (_, token) => token).sort((a, b) => (this.before[b] as number) - (this.before[a] as number));
  }
}

/** What a grammar with limits never allows, whatever the place: tokens that begin a string and break a limit at once. */
export function neverAllowed(lengths: TokenLengths, limits: readonly LengthLimit[]): Uint32Array {
  const least = Math.min(...limits.map(({ max }) => max));
  const most = Math.max(...limits.map(({ min }) => min));
  const never = new Uint32Array(Math.ceil(lengths.vocabulary.size / 32));
  for (const { token, longest, shortestClosed } of lengths.quoting) {
    if (longest > least || shortestClosed < most) never[token >>> 5] |= 1 << (token & 31);
  }
  return never;
}

export class StringLengths {
  readonly #lengths: TokenLengths;
  readonly #limits: readonly LengthLimit[];
  readonly #never: Uint32Array;
  readonly #walk = new Walk();
  #active: LengthLimit | undefined;

  constructor(lengths: TokenLengths, limits: readonly LengthLimit[], never: Uint32Array) {
    this.#lengths = lengths;
    this.#limits = limits;
    this.#never = never;
  }

  /** Told of each token: the part of it up to its last quote, where it has one, and `stand` is to be called. */
  accept(token: number): Uint8Array | undefined {
    const { offsets, bytes } = this.#lengths.vocabulary;
    const start = offsets[token] as number;
    let quoteEnd = start;
    for (let at = start; at < (offsets[token + 1] as number); at++) if (this.#walk.step(bytes[at] as number)) quoteEnd = at + 1;
    return quoteEnd === start ? undefined : bytes.slice(start, quoteEnd);
  }

  /** What follows the quote: `holds` tells whether a limit's mark is accepted there. */
  stand(holds: (limit: number) => boolean): void {
    // Where several hold, the text is not yet decided between strings of several kinds: all of them are kept.
    const held = this.#limits.filter((_, limit) => holds(limit));
    const min = Math.max(...held.map((limit) => limit.min));
    const max = Math.min(...held.map((limit) => limit.max));
    this.#active = held.length === 0 ? undefined : { min: Math.min(min, max), max };
  }

  /** Takes from a mask what would break a limit. */
  apply(mask: Uint32Array): void {
    for (let word = 0; word < mask.length; word++) mask[word] &= ~(this.#never[word] as number);
    if (this.#active === undefined) return;
    const room = this.#active.max - this.#walk.characters;
    const missing = this.#active.min - this.#walk.characters;
    if (this.#walk.escape !== 0 || this.#walk.isHalf) this.#applyInEscape(mask, room, missing);
    else this.#applyOutside(mask, room, missing);
  }

  #applyOutside(mask: Uint32Array, room: number, missing: number): void {
    const { before, longestFirst, quoting } = this.#lengths;
    for (const token of longestFirst) {
      if ((before[token] as number) <= room) break;
      clear(mask, token);
    }
    if (missing <= 0) return;
    for (const { token } of quoting) if ((before[token] as number) < missing) clear(mask, token);
  }

  #applyInEscape(mask: Uint32Array, room: number, missing: number): void {
    const { vocabulary } = this.#lengths;
    for (let token = 0; token < vocabulary.size; token++) {
      if (((mask[token >>> 5] as number) & (1 << (token & 31))) === 0) continue;
      const walk = new Walk();
      walk.copyEscape(this.#walk);
      let before = -1;
      for (let at = vocabulary.offsets[token] as number; before === -1 && at < (vocabulary.offsets[token + 1] as number); at++) {
        const previous = walk.characters;
        if (walk.step(vocabulary.bytes[at] as number)) before = previous;
      }
      if ((before === -1 ? walk.characters : before) > room || (before !== -1 && before < missing)) clear(mask, token);
    }
  }
}

function clear(mask: Uint32Array, token: number): void {
  mask[token >>> 5] &= ~(1 << (token & 31));
}
