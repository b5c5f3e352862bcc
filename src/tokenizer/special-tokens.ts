// Finds special tokens in the input and cuts the text around them. Invariants: longer tokens are found before shorter
// ones, each from left to right, and matches never overlap; the fragments in order, with the stripped white space, are
// the whole text. A guarded token is found only if all of it is in a range that may be parsed.

import type { EncodeInput } from "./encode-input.js";
import { OccurrenceFinder } from "./occurrence-finder.js";
import { TokenAttribute, type Vocabulary } from "./vocabulary.js";

/** A special token, or, if `token` is -1, text still to be encoded. */
interface Fragment {
  readonly token: number;
  readonly start: number;
  readonly end: number;
}

const TEXT = -1;
/**
 * The longest special token that is searched for. Known ones are much shorter, and any position of a text may begin
 * one.
 */
const MAX_SPECIAL_BYTES = 256;
const SPECIAL = TokenAttribute.control | TokenAttribute.userDefined | TokenAttribute.unknown;

/** Finds the special tokens of a vocabulary in a text. */
export class SpecialTokens {
  readonly ids: readonly number[];
  readonly #vocabulary: Vocabulary;
  /** Finds in one pass which of thousands of tokens occur at all. */
  readonly #parsed: OccurrenceFinder;
  readonly #always: OccurrenceFinder;

  constructor(vocabulary: Vocabulary) {
    this.#vocabulary = vocabulary;
    const ids: number[] = [];
    for (let id = 0; id < vocabulary.size; id++) if (vocabulary.has(id, SPECIAL)) ids.push(id);
    this.ids = ids;
    this.#parsed = this.#finderOf(ids);
    this.#always = this.#finderOf(ids.filter((id) => !vocabulary.has(id, TokenAttribute.guarded)));
  }

  partition({ bytes, parsed }: EncodeInput): readonly Fragment[] {
    let fragments: Fragment[] = bytes.length === 0 ? [] : [{ token: TEXT, start: 0, end: bytes.length }];
    const occurring = (parsed.length > 0 ? this.#parsed : this.#always).find(bytes);
    const longerFirst = (left: number, right: number): number =>
      this.#vocabulary.byteLength(right) - this.#vocabulary.byteLength(left) || left - right;
    for (const id of [...occurring].toSorted(longerFirst)) {
      fragments = fragments.flatMap((fragment) =>
        fragment.token === TEXT ? this.#cut(bytes, fragment, id, parsed) : fragment,
      );
    }
    return fragments;
  }

  #cut(bytes: Buffer, fragment: Fragment, id: number, parsed: readonly number[]): Fragment[] {
    const token = this.#vocabulary.bytes(id);
    const guarded = this.#vocabulary.has(id, TokenAttribute.guarded);
    const fragments: Fragment[] = [];
    let start = fragment.start;
    for (let from = start; ; from = Math.max(from, start)) {
      // Only within the fragment: a search that continued would visit the rest of the text once per fragment.
      const distance = bytes.subarray(from, fragment.end).indexOf(token);
      if (distance < 0) break;
      const found = from + distance;
      from = found + 1;
      if (guarded && !isWithin(parsed, found, found + token.length)) continue;
      let textEnd = found;
      if (this.#vocabulary.has(id, TokenAttribute.stripsLeft))
        while (textEnd > start && isSpace(bytes[textEnd - 1] as number)) textEnd--;
      if (textEnd > start) fragments.push({ token: TEXT, start, end: textEnd });
      start = found + token.length;
      fragments.push({ token: id, start: found, end: start });
      if (this.#vocabulary.has(id, TokenAttribute.stripsRight))
        while (start < fragment.end && isSpace(bytes[start] as number)) start++;
    }
    if (fragments.length === 0) return [fragment];
    if (start < fragment.end) fragments.push({ token: TEXT, start, end: fragment.end });
    return fragments;
  }

  /** Tokens with the same text as an earlier one are skipped, because the first matches everywhere. */
  #finderOf(ids: readonly number[]): OccurrenceFinder {
    const first = new Map<string, { readonly id: number; readonly bytes: Buffer }>();
    for (const id of ids) {
      const bytes = this.#vocabulary.bytes(id);
      const key = bytes.toString("latin1", 0, MAX_SPECIAL_BYTES + 1);
      if (bytes.length <= MAX_SPECIAL_BYTES && !first.has(key)) first.set(key, { id, bytes });
    }
    return new OccurrenceFinder([...first.values()]);
  }
}

/** Whether one of the ranges (start, end, start, end …) contains all of this one. */
function isWithin(ranges: readonly number[], start: number, end: number): boolean {
  let [low, high] = [0, ranges.length / 2];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((ranges[2 * middle + 1] as number) > start) high = middle;
    else low = middle + 1;
  }
  return 2 * low < ranges.length && (ranges[2 * low] as number) <= start && end <= (ranges[2 * low + 1] as number);
}

/** `isspace` of the C locale. */
function isSpace(byte: number): boolean {
  return byte === 0x20 || (byte >= 0x09 && byte <= 0x0d);
}
