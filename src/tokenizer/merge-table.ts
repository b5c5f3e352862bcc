// The ranked merges of a byte-pair vocabulary, by pairs of symbols. Invariants: a symbol is a token's id, or, for a
// text that only merges mention, a number from the vocabulary's size on; of equal merges the first counts. Merges
// are `left right`; the separator is the first space that is not the first byte.

import { randomInt } from "node:crypto";
import { GgufError } from "../errors.js";
import { tableCapacity, type TokenList, type Vocabulary } from "./vocabulary.js";

export const MERGES_KEY = "tokenizer.ggml.merges";
/** No token or merge has this text. */
export const NO_SYMBOL = -1;

const SEPARATOR = 0x20;
const SEED = randomInt(2 ** 32);

export class MergeTable {
  readonly #vocabulary: Vocabulary;
  readonly #lefts: Int32Array;
  readonly #rights: Int32Array;
  readonly #results: Int32Array;
  readonly #slots: Int32Array;
  readonly #mask: number;
  readonly #extraSymbols = new Map<string, number>();
  readonly #extraTexts: Buffer[] = [];

  constructor(vocabulary: Vocabulary, merges: TokenList) {
    this.#vocabulary = vocabulary;
    this.#lefts = new Int32Array(merges.length);
    this.#rights = new Int32Array(merges.length);
    this.#results = new Int32Array(merges.length);
    this.#mask = tableCapacity(merges.length) - 1;
    this.#slots = new Int32Array(this.#mask + 1);
    let joined = Buffer.allocUnsafe(256);
    for (let rank = 0; rank < merges.length; rank++) {
      const bytes = merges.bytesAt(rank);
      const cut = bytes.indexOf(SEPARATOR, 1);
      if (cut < 0 || cut === bytes.length - 1) throw malformedMerge(rank, bytes);
      if (joined.length < bytes.length) joined = Buffer.allocUnsafe(bytes.length * 2);
      joined.set(bytes.subarray(0, cut), 0);
      joined.set(bytes.subarray(cut + 1), cut);
      this.#lefts[rank] = this.addSymbol(joined, 0, cut);
      this.#rights[rank] = this.addSymbol(joined, cut, bytes.length - 1);
      this.#results[rank] = this.addSymbol(joined, 0, bytes.length - 1);
      this.#insert(rank);
    }
  }

  /** The place of this pair in the order of merges, or -1. */
  rank(left: number, right: number): number {
    if (left < 0 || right < 0) return -1;
    for (let slot = hashPair(left, right) & this.#mask; ; slot = (slot + 1) & this.#mask) {
      const rank = (this.#slots[slot] as number) - 1;
      if (rank < 0 || (this.#lefts[rank] === left && this.#rights[rank] === right)) return rank;
    }
  }

  /** What the merge of this rank makes. */
  result(rank: number): number {
    return this.#results[rank] as number;
  }

  /** The symbol of these bytes, or `NO_SYMBOL`. */
  findSymbol(bytes: Uint8Array, start: number, end: number): number {
    const id = this.#vocabulary.find(bytes, start, end);
    if (id >= 0 || this.#extraSymbols.size === 0) return id;
    return this.#extraSymbols.get(symbolKey(bytes, start, end)) ?? NO_SYMBOL;
  }

  addSymbol(bytes: Uint8Array, start: number, end: number): number {
    const known = this.findSymbol(bytes, start, end);
    if (known !== NO_SYMBOL) return known;
    const symbol = this.#vocabulary.size + this.#extraTexts.length;
    this.#extraTexts.push(Buffer.from(bytes.subarray(start, end)));
    this.#extraSymbols.set(symbolKey(bytes, start, end), symbol);
    return symbol;
  }

  /** The text of a symbol that is not a token. */
  extraText(symbol: number): Buffer {
    return this.#extraTexts[symbol - this.#vocabulary.size] as Buffer;
  }

  #insert(rank: number): void {
    const left = this.#lefts[rank] as number;
    const right = this.#rights[rank] as number;
    for (let slot = hashPair(left, right) & this.#mask; ; slot = (slot + 1) & this.#mask) {
      const other = (this.#slots[slot] as number) - 1;
      if (other < 0) this.#slots[slot] = rank + 1;
      if (other < 0 || (this.#lefts[other] === left && this.#rights[other] === right)) return;
    }
  }
}

function hashPair(left: number, right: number): number {
  const hash = Math.imul(left ^ SEED, 0x9e3779b1) ^ Math.imul(right + SEED, 0x85ebca6b);
  return hash ^ (hash >>> 15);
}

function symbolKey(bytes: Uint8Array, start: number, end: number): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset + start, end - start).toString("latin1");
}

function malformedMerge(rank: number, bytes: Uint8Array): GgufError {
  const shown = Buffer.from(bytes.subarray(0, 64)).toString("utf8");
  return new GgufError("GGUF_TOKENIZER", {
    field: `${MERGES_KEY}[${rank}]`,
    expected: "two texts with a space between them",
    found: JSON.stringify(shown),
  });
}
