// The ranked merges of a byte-pair vocabulary, by pairs of symbols. Invariants: a symbol is a token's id, or, for text
// that only merges contain, a number from the vocabulary's size on; of equal merges the first counts. Merges are stored
// as `left right`; the separator is the first space that is not the first byte.

import { randomInt } from "node:crypto";
import { GgufError } from "../errors.js";
import type { GgufArray } from "../gguf/array.js";
import { tableCapacity, type Vocabulary } from "./vocabulary.js";

/** The metadata key of the merges. */
export const MERGES_KEY = "tokenizer.ggml.merges";
/** The result if no token or merge has this text. */
export const NO_SYMBOL = -1;

const SEPARATOR = 0x20;
const FIRST_SCRATCH_BYTES = 1024;
/** Merges read between two yields: a millisecond or two. */
const MERGES_PER_STEP = 2048;
const SEED = randomInt(2 ** 32);

/** A list of texts, read once and in order; a `GgufArray` of strings fits. */
type MergeList = Pick<GgufArray, "length" | "strings">;

/** Merges as plain tables, each with a buffer of its own, so that another thread can build and transfer them. */
export interface MergeTables {
  /** The symbols of each merge, by rank. */
  readonly lefts: Int32Array<ArrayBuffer>;
  readonly rights: Int32Array<ArrayBuffer>;
  readonly results: Int32Array<ArrayBuffer>;
  /** The hash table: ranks plus one, 0 if a slot is empty. */
  readonly slots: Int32Array<ArrayBuffer>;
  /** The seed of the hashes by which merges were put into their slots. */
  readonly seed: number;
  /** The texts of the symbols that are not tokens, in order: usually none. */
  readonly extraTexts: readonly Uint8Array[];
}

/** The ranks of a vocabulary's merges, looked up by pairs of symbols. */
export class MergeTable {
  readonly #vocabulary: Vocabulary;
  readonly #lefts: Int32Array<ArrayBuffer>;
  readonly #rights: Int32Array<ArrayBuffer>;
  readonly #results: Int32Array<ArrayBuffer>;
  readonly #slots: Int32Array<ArrayBuffer>;
  readonly #mask: number;
  readonly #seed: number;
  readonly #extraSymbols = new Map<string, number>();
  readonly #extraTexts: Buffer[] = [];

  private constructor(vocabulary: Vocabulary, { lefts, rights, results, slots, seed, extraTexts }: MergeTables) {
    this.#vocabulary = vocabulary;
    this.#lefts = lefts;
    this.#rights = rights;
    this.#results = results;
    this.#mask = slots.length - 1;
    this.#slots = slots;
    this.#seed = seed;
    for (const text of extraTexts) this.addSymbol(text, 0, text.length);
  }

  /** The merges of tables that were built before, with this vocabulary; they are the table's from now on. */
  static of(vocabulary: Vocabulary, tables: MergeTables): MergeTable {
    return new MergeTable(vocabulary, tables);
  }

  /** Builds the table; yields at intervals, so that the caller can do other work. */
  static *read(vocabulary: Vocabulary, merges: MergeList | undefined): Generator<void, MergeTable, undefined> {
    const count = merges?.length ?? 0;
    const table = new MergeTable(vocabulary, {
      lefts: new Int32Array(count),
      rights: new Int32Array(count),
      results: new Int32Array(count),
      slots: new Int32Array(tableCapacity(count)),
      seed: SEED,
      extraTexts: [],
    });
    const texts = merges?.strings();
    let scratch = Buffer.allocUnsafe(FIRST_SCRATCH_BYTES);
    for (let rank = 0; texts?.next() === true;) {
      const { bytes, start, end } = texts;
      let cut = start + 1;
      while (cut < end && bytes[cut] !== SEPARATOR) cut++;
      if (cut >= end - 1) throw malformedMerge(rank, bytes.subarray(start, end));
      if (end - start > scratch.length) scratch = Buffer.allocUnsafe(2 * (end - start));
      // The separator is removed, so that left, right and result are ranges of the same bytes.
      let length = 0;
      for (let at = start; at < end; at++) if (at !== cut) scratch[length++] = bytes[at] as number;
      table.#add(rank++, scratch, cut - start, length);
      if (rank % MERGES_PER_STEP === 0) yield;
    }
    return table;
  }

  /** What `of` makes this table from again. */
  get tables(): MergeTables {
    return {
      lefts: this.#lefts,
      rights: this.#rights,
      results: this.#results,
      slots: this.#slots,
      seed: this.#seed,
      extraTexts: this.#extraTexts,
    };
  }

  /** Adds the merge of two texts that meet at `cut`. */
  #add(rank: number, bytes: Uint8Array, cut: number, end: number): void {
    this.#lefts[rank] = this.addSymbol(bytes, 0, cut);
    this.#rights[rank] = this.addSymbol(bytes, cut, end);
    this.#results[rank] = this.addSymbol(bytes, 0, end);
    this.#insert(rank);
  }

  /** The rank of this pair's merge, or -1. */
  rank(left: number, right: number): number {
    if (left < 0 || right < 0) return -1;
    for (let slot = hashPair(left, right, this.#seed) & this.#mask; ; slot = (slot + 1) & this.#mask) {
      const rank = (this.#slots[slot] as number) - 1;
      if (rank < 0 || (this.#lefts[rank] === left && this.#rights[rank] === right)) return rank;
    }
  }

  /** The symbol that the merge of this rank produces. */
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
    for (let slot = hashPair(left, right, this.#seed) & this.#mask; ; slot = (slot + 1) & this.#mask) {
      const other = (this.#slots[slot] as number) - 1;
      if (other < 0) this.#slots[slot] = rank + 1;
      if (other < 0 || (this.#lefts[other] === left && this.#rights[other] === right)) return;
    }
  }
}

function hashPair(left: number, right: number, seed: number): number {
  const hash = Math.imul(left ^ seed, 0x9e3779b1) ^ Math.imul(right + seed, 0x85ebca6b);
  return hash ^ (hash >>> 15);
}

function symbolKey(bytes: Uint8Array, start: number, end: number): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset + start, end - start).toString("latin1");
}

function malformedMerge(rank: number, bytes: Uint8Array): GgufError {
  const text = Buffer.from(bytes).toString("utf8");
  return new GgufError("GGUF_TOKENIZER", {
    field: `${MERGES_KEY}[${rank}]`,
    expected: "two texts with a space between them",
    found: JSON.stringify(text.slice(0, 64)),
  });
}
