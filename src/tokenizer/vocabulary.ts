// The tokens of a file: their bytes in one pool, their attributes and scores, and a lookup by bytes.
// Invariants: a token may be any bytes, also invalid UTF-8; an empty one is called `[EMPTY_id]`, as llama.cpp does;
// of equal tokens the lookup knows the first. No string is made until one is asked for: at 128,000 tokens the
// strings and their map would take ten times the memory.

import { randomInt } from "node:crypto";
import type { GgufArray, StringCursor } from "../gguf/array.js";

/** Bits, because a control token may be a normal one that a known text made one. */
export const TokenAttribute = {
  unknown: 1,
  unused: 2,
  normal: 4,
  control: 8,
  userDefined: 16,
  byte: 32,
  stripsLeft: 64,
  stripsRight: 128,
  /** Its text is this token only where the caller says that special tokens may be parsed, and never by chance. */
  guarded: 256,
} as const;

/** `tokenizer.ggml.token_type`, by value; anything else has no attribute and prints as nothing. */
const ATTRIBUTE_OF_TYPE: Readonly<Record<number, number>> = {
  1: TokenAttribute.normal,
  2: TokenAttribute.unknown,
  3: TokenAttribute.control,
  4: TokenAttribute.userDefined,
  5: TokenAttribute.unused,
  6: TokenAttribute.byte,
};

const HASH_PRIME = 0x01000193;
// Random, so that no file can be written whose tokens all fall on one place of the table.
const HASH_SEED = randomInt(2 ** 32);

/** Tokens read without a break: a millisecond or two. */
const TURN_TOKENS = 8192;
const FIRST_POOL_BYTES = 1024;
const USUAL_TOKEN_BYTES = 8;

/** What a vocabulary is made of; `GgufArray` fits. */
export type TokenList = Pick<GgufArray, "length" | "strings">;

export class Vocabulary {
  readonly size: number;
  readonly attributes: Uint16Array;
  readonly scores: Float32Array;
  #longestBytes = 0;
  #pool: Buffer = Buffer.alloc(0);
  readonly #offsets: Uint32Array;
  readonly #slots: Int32Array;
  readonly #mask: number;

  private constructor(size: number, scores: Float64Array | undefined) {
    this.size = size;
    this.attributes = new Uint16Array(size).fill(TokenAttribute.normal);
    this.scores = scores === undefined ? new Float32Array(size) : new Float32Array(scores);
    this.#offsets = new Uint32Array(size + 1);
    this.#mask = tableCapacity(size) - 1;
    this.#slots = new Int32Array(this.#mask + 1);
  }

  /** Yields now and then, for those who have something else to do in between. */
  static *read(
    tokens: TokenList,
    types: Float64Array | undefined,
    scores: Float64Array | undefined,
  ): Generator<void, Vocabulary, undefined> {
    const vocabulary = new Vocabulary(tokens.length, scores);
    const { size, attributes } = vocabulary;
    if (types !== undefined)
      for (let id = 0; id < size; id++) attributes[id] = ATTRIBUTE_OF_TYPE[types[id] as number] ?? 0;
    yield;
    yield* vocabulary.#copyTokens(tokens);
    for (let id = 0; id < size; id++) {
      vocabulary.#longestBytes = Math.max(vocabulary.#longestBytes, vocabulary.byteLength(id));
      vocabulary.#insert(id);
      if (id % TURN_TOKENS === TURN_TOKENS - 1) yield;
    }
    return vocabulary;
  }

  /** The longest token, in bytes: longer stretches of text need not be looked up. */
  get longestBytes(): number {
    return this.#longestBytes;
  }

  byteLength(id: number): number {
    return (this.#offsets[id + 1] as number) - (this.#offsets[id] as number);
  }

  /** A view; do not write to it. */
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
    for (let slot = hashBytes(bytes, start, end) & this.#mask; ; slot = (slot + 1) & this.#mask) {
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
      // By hand: for a few bytes a call to `set` costs more than the copy.
      for (let index = start; index < end; index++) pool[used++] = bytes[index] as number;
      this.#offsets[id + 1] = used;
      if (id % TURN_TOKENS === TURN_TOKENS - 1) yield;
    }
    this.#pool = Buffer.from(pool.subarray(0, used));
  }

  #insert(id: number): void {
    const start = this.#offsets[id] as number;
    const end = this.#offsets[id + 1] as number;
    for (let slot = hashBytes(this.#pool, start, end) & this.#mask; ; slot = (slot + 1) & this.#mask) {
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

function hashBytes(bytes: Uint8Array, start: number, end: number): number {
  let hash = HASH_SEED;
  for (let index = start; index < end; index++) hash = Math.imul(hash ^ (bytes[index] as number), HASH_PRIME);
  return hash ^ (hash >>> 15);
}
