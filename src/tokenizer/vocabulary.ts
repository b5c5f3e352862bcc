// The tokens of a file: their bytes in one buffer, their attributes and scores, and a lookup by bytes. Invariants: a
// token may be any bytes, including invalid UTF-8; an empty one is called `[EMPTY_id]`, as in llama.cpp; of equal
// tokens the lookup finds the first. Strings are created only on demand: for 128,000 tokens, strings and a map would
// take ten times the memory.

import { randomInt } from "node:crypto";
import type { GgufArray, StringCursor } from "../gguf/array.js";

/** Attributes of a token as bits, because a normal token may also be a control token by its text. */
export const TokenAttribute = {
  unknown: 1,
  unused: 2,
  normal: 4,
  control: 8,
  userDefined: 16,
  byte: 32,
  stripsLeft: 64,
  stripsRight: 128,
  /** Its text becomes this token only if the caller allows special tokens to be parsed, and never by merges. */
  guarded: 256,
} as const;

/** Attributes by the value of `tokenizer.ggml.token_type`; any other value has none and prints as nothing. */
const ATTRIBUTE_OF_TYPE: Readonly<Record<number, number>> = {
  1: TokenAttribute.normal,
  2: TokenAttribute.unknown,
  3: TokenAttribute.control,
  4: TokenAttribute.userDefined,
  5: TokenAttribute.unused,
  6: TokenAttribute.byte,
};

const HASH_PRIME = 0x01000193;
// Random, so that no file can be crafted whose tokens all collide in the table.
const HASH_SEED = randomInt(2 ** 32);

/** Tokens read between two yields: a millisecond or two. */
const TOKENS_PER_STEP = 8192;
const FIRST_POOL_BYTES = 1024;
const USUAL_TOKEN_BYTES = 8;

/** The texts of a vocabulary; a `GgufArray` of strings fits. */
type TokenList = Pick<GgufArray, "length" | "strings">;

/** A vocabulary as plain tables, each with a buffer of its own, so that another thread can build and transfer them. */
export interface VocabularyTables {
  /** The bytes of all tokens; token `id` is the range from `offsets[id]` to `offsets[id + 1]`. */
  readonly pool: Uint8Array<ArrayBuffer>;
  readonly offsets: Uint32Array<ArrayBuffer>;
  readonly longestBytes: number;
  /** The hash table: token ids plus one, 0 if a slot is empty. */
  readonly slots: Int32Array<ArrayBuffer>;
  /** The seed of the hashes by which tokens were put into their slots. */
  readonly seed: number;
  readonly attributes: Uint16Array<ArrayBuffer>;
  readonly scores: Float32Array<ArrayBuffer>;
}

/** The tokens of a file, with a lookup by bytes. */
export class Vocabulary {
  readonly size: number;
  readonly attributes: Uint16Array<ArrayBuffer>;
  readonly scores: Float32Array<ArrayBuffer>;
  #longestBytes: number;
  #pool: Buffer<ArrayBuffer>;
  readonly #offsets: Uint32Array<ArrayBuffer>;
  readonly #slots: Int32Array<ArrayBuffer>;
  readonly #mask: number;
  readonly #seed: number;

  private constructor({ pool, offsets, longestBytes, slots, seed, attributes, scores }: VocabularyTables) {
    this.size = attributes.length;
    this.attributes = attributes;
    this.scores = scores;
    this.#longestBytes = longestBytes;
    this.#pool = Buffer.from(pool.buffer, pool.byteOffset, pool.length);
    this.#offsets = offsets;
    this.#mask = slots.length - 1;
    this.#slots = slots;
    this.#seed = seed;
  }

  /** The vocabulary of tables that were built before; it owns them from now on. */
  static of(tables: VocabularyTables): Vocabulary {
    return new Vocabulary(tables);
  }

  /** Builds the vocabulary; yields at intervals, so that the caller can do other work. */
  static *read(
    tokens: TokenList,
    types: Float64Array | undefined,
    scores: Float64Array | undefined,
  ): Generator<void, Vocabulary, undefined> {
    const { length: size } = tokens;
    const attributes = new Uint16Array(size).fill(TokenAttribute.normal);
    const vocabulary = new Vocabulary({
      pool: new Uint8Array(),
      offsets: new Uint32Array(size + 1),
      longestBytes: 0,
      slots: new Int32Array(tableCapacity(size)),
      seed: HASH_SEED,
      attributes,
      scores: scores === undefined ? new Float32Array(size) : new Float32Array(scores),
    });
    if (types !== undefined)
      for (let id = 0; id < size; id++) attributes[id] = ATTRIBUTE_OF_TYPE[types[id] as number] ?? 0;
    yield;
    yield* vocabulary.#copyTokens(tokens);
    for (let id = 0; id < size; id++) {
      vocabulary.#longestBytes = Math.max(vocabulary.#longestBytes, vocabulary.byteLength(id));
      vocabulary.#insert(id);
      if (id % TOKENS_PER_STEP === TOKENS_PER_STEP - 1) yield;
    }
    return vocabulary;
  }

  /** What `of` makes this vocabulary from again. */
  get tables(): VocabularyTables {
    return {
      pool: this.#pool,
      offsets: this.#offsets,
      longestBytes: this.#longestBytes,
      slots: this.#slots,
      seed: this.#seed,
      attributes: this.attributes,
      scores: this.scores,
    };
  }

  /** The length of the longest token in bytes: longer text need not be looked up. */
  get longestBytes(): number {
    return this.#longestBytes;
  }

  byteLength(id: number): number {
    return (this.#offsets[id + 1] as number) - (this.#offsets[id] as number);
  }

  /** A view of the token's bytes; do not write to it. */
  bytes(id: number): Buffer {
    return this.#pool.subarray(this.#offsets[id], this.#offsets[id + 1]);
  }

  text(id: number): string {
    return this.#pool.toString("utf8", this.#offsets[id], this.#offsets[id + 1]);
  }

  has(id: number, attribute: number): boolean {
    return ((this.attributes[id] as number) & attribute) !== 0;
  }

  /** The token of exactly these bytes, or -1. */
  find(bytes: Uint8Array, start: number, end: number): number {
    if (end - start > this.#longestBytes) return -1;
    for (let slot = hashBytes(bytes, start, end, this.#seed) & this.#mask; ; slot = (slot + 1) & this.#mask) {
      const id = (this.#slots[slot] as number) - 1;
      if (id < 0 || this.#equals(id, bytes, start, end)) return id;
    }
  }

  findText(text: string): number {
    const bytes = Buffer.from(text, "utf8");
    return this.find(bytes, 0, bytes.length);
  }

  *#copyTokens(tokens: TokenList): Generator<void, void, undefined> {
    const texts = tokens.strings();
    let pool = Buffer.allocUnsafe(Math.max(FIRST_POOL_BYTES, this.size * USUAL_TOKEN_BYTES));
    let used = 0;
    for (let id = 0; texts.next(); id++) {
      const { bytes, start, end } = texts.start === texts.end ? nameOfEmpty(id) : texts;
      if (used + end - start > pool.length) pool = Buffer.concat([pool], Math.max(used + end - start, pool.length * 2));
      // A loop, because for a few bytes a call to `set` costs more than the copy.
      for (let index = start; index < end; index++) pool[used++] = bytes[index] as number;
      this.#offsets[id + 1] = used;
      if (id % TOKENS_PER_STEP === TOKENS_PER_STEP - 1) yield;
    }
    // Not a slice of the memory that small buffers share, which cannot be transferred.
    this.#pool = Buffer.allocUnsafeSlow(used);
    this.#pool.set(pool.subarray(0, used));
  }

  #insert(id: number): void {
    const start = this.#offsets[id] as number;
    const end = this.#offsets[id + 1] as number;
    for (let slot = hashBytes(this.#pool, start, end, this.#seed) & this.#mask; ; slot = (slot + 1) & this.#mask) {
      const other = (this.#slots[slot] as number) - 1;
      if (other < 0) this.#slots[slot] = id + 1;
      if (other < 0 || this.#equals(other, this.#pool, start, end)) return;
    }
  }

  #equals(id: number, bytes: Uint8Array, start: number, end: number): boolean {
    const offset = this.#offsets[id] as number;
    if ((this.#offsets[id + 1] as number) - offset !== end - start) return false;
    for (let index = 0; index < end - start; index++) {
      if (this.#pool[offset + index] !== bytes[start + index]) return false;
    }
    return true;
  }
}

function nameOfEmpty(id: number): Pick<StringCursor, "bytes" | "start" | "end"> {
  const bytes = Buffer.from(`[EMPTY_${id}]`);
  return { bytes, start: 0, end: bytes.length };
}

/** A power of two that leaves a hash table at least half empty. */
export function tableCapacity(entries: number): number {
  return 2 ** Math.ceil(Math.log2(Math.max(entries, 8) * 2));
}

function hashBytes(bytes: Uint8Array, start: number, end: number, seed: number): number {
  let hash = seed;
  for (let index = start; index < end; index++) hash = Math.imul(hash ^ (bytes[index] as number), HASH_PRIME);
  return hash ^ (hash >>> 15);
}
