// Finds special tokens written out in the input and cuts the text around them. Invariants: longer tokens are found
// before shorter ones, each from left to right, and what one has taken no other can; the pieces in order, with the
// stripped white space, are the whole text.

import { TokenAttribute, type Vocabulary } from "./vocabulary.js";

/** Text still to be encoded, `token` -1, or a special token. */
export interface Piece {
  readonly token: number;
  readonly start: number;
  readonly end: number;
}

const TEXT = -1;
const PREFIX_BYTES = 3;
const SPECIAL = TokenAttribute.control | TokenAttribute.userDefined | TokenAttribute.unknown;
/** These are found only where the caller asks for special tokens to be parsed. */
const PARSED_ONLY = TokenAttribute.control | TokenAttribute.unknown;

export class SpecialTokens {
  readonly ids: readonly number[];
  readonly #vocabulary: Vocabulary;
  /** Tokens by their first bytes, so that one pass over the text tells which of thousands occur at all. */
  readonly #byPrefix = new Map<number, number[]>();
  readonly #firstBytes = new Uint8Array(256);

  constructor(vocabulary: Vocabulary) {
    this.#vocabulary = vocabulary;
    const ids: number[] = [];
    for (let id = 0; id < vocabulary.size; id++) if (vocabulary.has(id, SPECIAL)) ids.push(id);
    this.ids = ids.sort((left, right) => vocabulary.byteLength(right) - vocabulary.byteLength(left));
    for (const id of this.ids) {
      const bytes = vocabulary.bytes(id);
      const key = prefixKey(bytes, 0, Math.min(bytes.length, PREFIX_BYTES));
      this.#firstBytes[bytes[0] as number] = 1;
      const same = this.#byPrefix.get(key);
      if (same === undefined) this.#byPrefix.set(key, [id]);
      else same.push(id);
    }
  }

  partition(bytes: Buffer, parseSpecial: boolean): readonly Piece[] {
    let pieces: Piece[] = bytes.length === 0 ? [] : [{ token: TEXT, start: 0, end: bytes.length }];
    const occurring = this.#occurring(bytes);
    if (occurring.size === 0) return pieces;
    for (const id of this.ids) {
      if (!occurring.has(id) || (!parseSpecial && this.#vocabulary.has(id, PARSED_ONLY))) continue;
      pieces = pieces.flatMap((piece) => (piece.token === TEXT ? this.#cut(bytes, piece, id) : piece));
    }
    return pieces;
  }

  #cut(bytes: Buffer, piece: Piece, id: number): Piece[] {
    const token = this.#vocabulary.bytes(id);
    const pieces: Piece[] = [];
    let start = piece.start;
    for (;;) {
      // Within the piece only: a search that ran on would visit the rest of the text once for every piece.
      const distance = bytes.subarray(start, piece.end).indexOf(token);
      if (distance < 0) break;
      const found = start + distance;
      let textEnd = found;
      if (this.#vocabulary.has(id, TokenAttribute.stripsLeft)) while (textEnd > start && isSpace(bytes[textEnd - 1] as number)) textEnd--;
      if (textEnd > start) pieces.push({ token: TEXT, start, end: textEnd });
      start = found + token.length;
      pieces.push({ token: id, start: found, end: start });
      if (this.#vocabulary.has(id, TokenAttribute.stripsRight)) while (start < piece.end && isSpace(bytes[start] as number)) start++;
    }
    if (pieces.length === 0) return [piece];
    if (start < piece.end) pieces.push({ token: TEXT, start, end: piece.end });
    return pieces;
  }

  /** Every special token that is somewhere in the text. */
  #occurring(bytes: Buffer): ReadonlySet<number> {
    const found = new Set<number>();
    if (this.ids.length === 0) return found;
    for (let at = 0; at < bytes.length; at++) {
      if (this.#firstBytes[bytes[at] as number] === 0) continue;
      for (let length = 1; length <= PREFIX_BYTES && at + length <= bytes.length; length++) {
        for (const id of this.#byPrefix.get(prefixKey(bytes, at, length)) ?? []) {
          if (!found.has(id) && this.#matches(bytes, at, id)) found.add(id);
        }
      }
    }
    return found;
  }

  #matches(bytes: Buffer, at: number, id: number): boolean {
    const end = at + this.#vocabulary.byteLength(id);
    return end <= bytes.length && this.#vocabulary.bytes(id).compare(bytes, at, end) === 0;
  }
}

/** The first bytes and how many they are, as one number. */
function prefixKey(bytes: Uint8Array, at: number, length: number): number {
  let key = length;
  for (let index = 0; index < length; index++) key = key * 256 + (bytes[at + index] as number);
  return key;
}

/** `isspace` of the C locale. */
function isSpace(byte: number): boolean {
  return byte === 0x20 || (byte >= 0x09 && byte <= 0x0d);
}
