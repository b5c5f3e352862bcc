// Reads a header front to back through one small window over the file. Invariants: the window never grows; every length
// is compared with the bytes left before anything is read or allocated; skipping reads nothing.

import { GgufError } from "../errors.js";
import { MAX_HEADER_BYTES } from "./limits.js";

const WINDOW_BYTES = 64 * 1024;
const STRING_LENGTH_BYTES = 8;
const TWO_TO_32 = 2 ** 32;
/** If the upper half of a 64-bit length exceeds this, a `number` cannot hold the length exactly. */
const MAX_SAFE_UPPER_HALF = 2 ** 21 - 1;

/** What a header is read from: an open file, or its first bytes in memory. */
export interface HeaderSource {
  readonly path: string;
  readonly sizeBytes: number;
  /** Fills `target` from `position`; the error of a short read names `field`. */
  readSync(target: Uint8Array, position: number, field: string): void;
  /** Throws GGUF_TRUNCATED if the file ends before `endBytes`. */
  requireSize(endBytes: number, field: string): void;
}

/** A forward reader over a header, through one small window. */
export class HeaderCursor {
  readonly source: HeaderSource;
  readonly #window: Buffer;
  /** Where in the file the window begins, and how much of it is filled. */
  #windowStart = 0;
  #windowFilled = 0;
  #position = 0;

  constructor(source: HeaderSource) {
    this.source = source;
    this.#window = Buffer.allocUnsafe(Math.min(WINDOW_BYTES, source.sizeBytes));
  }

  get position(): number {
    return this.#position;
  }

  get remaining(): number {
    return this.source.sizeBytes - this.#position;
  }

  /** Throws unless the file has `lengthBytes` more bytes within the header's limit. */
  require(lengthBytes: number | bigint, field: string): void {
    if (lengthBytes > this.remaining) {
      const expected = `${lengthBytes} bytes at ${this.#position}`;
      throw new GgufError("GGUF_TRUNCATED", { field, expected, found: `${this.remaining} bytes left in the file` });
    }
    if (this.#position + Number(lengthBytes) > MAX_HEADER_BYTES) {
      throw new GgufError("GGUF_LIMIT", {
        field,
        expected: `a header of at most ${MAX_HEADER_BYTES} bytes`,
        found: `at least ${this.#position + Number(lengthBytes)}`,
      });
    }
  }

  uint8(field: string): number {
    return this.#window.readUInt8(this.#take(1, field));
  }

  uint32(field: string): number {
    return this.#window.readUInt32LE(this.#take(4, field));
  }

  /**
   * A 64-bit integer: a `bigint` only if a `number` would not be exact, so that comparisons with limits work on both.
   */
  uint64(field: string): number | bigint {
    const at = this.#take(8, field);
    const upper = this.#window.readUInt32LE(at + 4);
    if (upper <= MAX_SAFE_UPPER_HALF) return upper * TWO_TO_32 + this.#window.readUInt32LE(at);
    return this.#window.readBigUInt64LE(at);
  }

  /** The next bytes, at most a window's worth; valid until the next call. */
  peekBytes(lengthBytes: number, field: string): Buffer {
    const at = this.#take(lengthBytes, field);
    return this.#window.subarray(at, at + lengthBytes);
  }

  /** A string's bytes as text; callers check the length first. */
  text(lengthBytes: number, field: string): { readonly text: string; readonly bytes: Buffer } {
    const bytes =
      lengthBytes <= this.#window.length ? this.peekBytes(lengthBytes, field) : this.#readApart(lengthBytes, field);
    return { text: bytes.toString("utf8"), bytes };
  }

  skip(lengthBytes: number, field: string): void {
    this.require(lengthBytes, field);
    this.#position += lengthBytes;
  }

  /**
   * Walks `count` strings and records where every `stride`th begins, relative to the first. It is one loop over the
   * window because a vocabulary has half a million strings; `refuse` is called, and throws, on a length that this loop
   * does not accept.
   */
  indexStrings(
    count: number,
    stride: number,
    maxBytes: number,
    refuse: (index: number, lengthBytes: bigint) => never,
    field: string,
  ): Uint32Array {
    const start = this.#position;
    const offsets = new Uint32Array(Math.ceil(count / stride));
    const window = this.#window;
    for (let index = 0; index < count; index++) {
      if (index % stride === 0) offsets[index / stride] = this.#position - start;
      const at = this.#take(STRING_LENGTH_BYTES, field);
      const lower = window[at] + window[at + 1] * 0x100 + window[at + 2] * 0x1_0000 + window[at + 3] * 0x100_0000;
      const upper = window[at + 4] | window[at + 5] | window[at + 6] | window[at + 7];
      if (upper !== 0 || lower > maxBytes) refuse(index, window.readBigUInt64LE(at));
      this.#position += lower;
      if (this.#position > this.source.sizeBytes) {
        this.#position -= lower;
        this.require(lower, field);
      }
    }
    return offsets;
  }

  #readApart(lengthBytes: number, field: string): Buffer {
    this.require(lengthBytes, field);
    const bytes = Buffer.allocUnsafe(lengthBytes);
    this.source.readSync(bytes, this.#position, field);
    this.#position += lengthBytes;
    return bytes;
  }

  /** Moves past `lengthBytes` and returns where they begin in the window. */
  #take(lengthBytes: number, field: string): number {
    let at = this.#position - this.#windowStart;
    if (at < 0 || at + lengthBytes > this.#windowFilled) {
      this.require(lengthBytes, field);
      this.#windowStart = this.#position;
      this.#windowFilled = Math.min(this.#window.length, this.remaining);
      this.source.readSync(this.#window.subarray(0, this.#windowFilled), this.#windowStart, field);
      at = 0;
    }
    this.#position += lengthBytes;
    return at;
  }
}
