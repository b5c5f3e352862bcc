// Metadata arrays. An array from a file is a byte range that is read and decoded on demand; an array from memory (the
// writer's input, tests) holds its values. Invariants: every offset inside a range is checked again when it is used,
// because the file may have changed since it was indexed; `strings`, `toNumbers`, `toStrings` and iteration read in one
// pass and keep nothing, while `at` and `bytesAt` keep the range's bytes for the next call.

import { GgufError, OptionError } from "../errors.js";
import {
  fixedBytes,
  readFixed,
  type FixedValueType,
  type GgufScalar,
  type GgufValue,
  type GgufValueType,
} from "./value.js";

/** A metadata array, whose elements are decoded on demand. */
export interface GgufArray {
  readonly elementType: GgufValueType;
  readonly length: number;
  at(index: number): GgufValue;
  /** The raw bytes of a string element, which need not be valid UTF-8. Do not write to them. */
  bytesAt(index: number): Uint8Array;
  /** Iterates over the string elements without decoding them. */
  strings(): StringCursor;
  /** All elements of a numeric or bool array, read in one pass. */
  toNumbers(): Float64Array;
  /** All elements of a string array; invalid UTF-8 becomes U+FFFD. */
  toStrings(): string[];
  [Symbol.iterator](): IterableIterator<GgufValue>;
}

/**
 * A position in a string array. The element's raw bytes are `bytes` from `start` up to `end`, valid until the next call
 * of `next`. Do not write to them.
 */
export interface StringCursor {
  readonly bytes: Uint8Array;
  readonly start: number;
  readonly end: number;
  /** Moves to the next element (the first, on the first call); false at the end. */
  next(): boolean;
}

/** A byte range of a file that is read on demand. */
export interface ArrayBytes {
  /** The metadata key, for error messages. */
  readonly field: string;
  read(): Buffer;
}

/** Strings between two checkpoints of a string array: a random access walks at most this many. */
export const CHECKPOINT_STRINGS = 64;
const LENGTH_BYTES = 8;

abstract class ArrayBase implements GgufArray {
  abstract readonly elementType: GgufValueType;
  readonly length: number;
  protected readonly field: string;

  constructor(field: string, length: number) {
    this.field = field;
    this.length = length;
  }

  abstract at(index: number): GgufValue;
  abstract [Symbol.iterator](): IterableIterator<GgufValue>;

  bytesAt(_index: number): Uint8Array {
    throw this.wrongElement("string elements");
  }

  strings(): StringCursor {
    let index = 0;
    const cursor = {
      bytes: new Uint8Array(0) as Uint8Array,
      start: 0,
      end: 0,
      next: (): boolean => {
        if (index >= this.length) return false;
        cursor.bytes = this.bytesAt(index++);
        cursor.end = cursor.bytes.length;
        return true;
      },
    };
    return cursor;
  }

  toNumbers(): Float64Array {
    throw this.wrongElement("numeric elements");
  }

  toStrings(): string[] {
    throw this.wrongElement("string elements");
  }

  protected wrongElement(expected: string): GgufError {
    return new GgufError("GGUF_VALUE", { field: this.field, expected, found: `array of ${this.elementType}` });
  }

  protected checkIndex(index: number): void {
    if (Number.isInteger(index) && index >= 0 && index < this.length) return;
    throw new OptionError(
      "OPTION_VALUE",
      `[gguf] ${this.field}: index ${index} is outside an array of ${this.length} elements`,
      { details: { field: this.field, index, length: this.length } },
    );
  }

  protected inexact(value: bigint): GgufError {
    const expected = "integers of at most 2^53 - 1";
    return new GgufError("GGUF_VALUE", { field: this.field, expected, found: String(value) });
  }
}

/** An array in a file whose elements all have the same size. */
export class FixedArray extends ArrayBase {
  override readonly elementType: FixedValueType;
  readonly #source: ArrayBytes;
  #kept: Buffer | undefined;

  constructor(source: ArrayBytes, elementType: FixedValueType, length: number) {
    super(source.field, length);
    this.#source = source;
    this.elementType = elementType;
  }

  override at(index: number): GgufValue {
    this.checkIndex(index);
    this.#kept ??= this.#source.read();
    return readFixed(this.elementType, this.#kept, index * fixedBytes(this.elementType), this.field);
  }

  override toNumbers(): Float64Array {
    const bytes = this.#kept ?? this.#source.read();
    const step = fixedBytes(this.elementType);
    const numbers = new Float64Array(this.length);
    for (let index = 0; index < this.length; index++) {
      const value = readFixed(this.elementType, bytes, index * step, this.field);
      if (typeof value === "bigint") throw this.inexact(value);
      numbers[index] = Number(value);
    }
    return numbers;
  }

  override *[Symbol.iterator](): IterableIterator<GgufValue> {
    const bytes = this.#kept ?? this.#source.read();
    const step = fixedBytes(this.elementType);
    for (let index = 0; index < this.length; index++)
      yield readFixed(this.elementType, bytes, index * step, this.field);
  }
}

/** A string array in a file: it remembers only the offset of every 64th string. */
export class StringArray extends ArrayBase {
  override readonly elementType = "string";
  readonly #source: ArrayBytes;
  readonly #checkpoints: Uint32Array;
  #kept: Buffer | undefined;
  /** Where the element after the last one read begins. */
  #next = { index: 0, offset: 0 };

  constructor(source: ArrayBytes, length: number, checkpoints: Uint32Array) {
    super(source.field, length);
    this.#source = source;
    this.#checkpoints = checkpoints;
  }

  override at(index: number): string {
    const [bytes, start, end] = this.#locate(index);
    return bytes.toString("utf8", start, end);
  }

  override bytesAt(index: number): Uint8Array {
    const [bytes, start, end] = this.#locate(index);
    return bytes.subarray(start, end);
  }

  override strings(): StringCursor {
    const bytes = this.#kept ?? this.#source.read();
    let index = 0;
    const cursor = {
      bytes,
      start: 0,
      end: 0,
      next: (): boolean => {
        if (index++ >= this.length) return false;
        const offset = cursor.end;
        cursor.end = this.#endOf(bytes, offset);
        cursor.start = offset + LENGTH_BYTES;
        return true;
      },
    };
    return cursor;
  }

  override toStrings(): string[] {
    const bytes = this.#kept ?? this.#source.read();
    const strings: string[] = [];
    for (let index = 0, offset = 0; index < this.length; index++) {
      const end = this.#endOf(bytes, offset);
      strings.push(bytes.toString("utf8", offset + LENGTH_BYTES, end));
      offset = end;
    }
    return strings;
  }

  override *[Symbol.iterator](): IterableIterator<string> {
    const bytes = this.#kept ?? this.#source.read();
    for (let index = 0, offset = 0; index < this.length; index++) {
      const end = this.#endOf(bytes, offset);
      yield bytes.toString("utf8", offset + LENGTH_BYTES, end);
      offset = end;
    }
  }

  #locate(index: number): [bytes: Buffer, start: number, end: number] {
    this.checkIndex(index);
    const bytes = (this.#kept ??= this.#source.read());
    const checkpoint = Math.floor(index / CHECKPOINT_STRINGS);
    // Most callers read from first to last, so they need not walk from the checkpoint each time.
    const goesOn = this.#next.index <= index && this.#next.index >= checkpoint * CHECKPOINT_STRINGS;
    let { index: at, offset } = goesOn
      ? this.#next
      : { index: checkpoint * CHECKPOINT_STRINGS, offset: this.#checkpoints[checkpoint] };
    for (; at < index; at++) offset = this.#endOf(bytes, offset);
    const end = this.#endOf(bytes, offset);
    this.#next = { index: index + 1, offset: end };
    return [bytes, offset + LENGTH_BYTES, end];
  }

  #endOf(bytes: Buffer, offset: number): number {
    const start = offset + LENGTH_BYTES;
    if (start <= bytes.length) {
      const end = start + bytes.readUInt32LE(offset);
      if (bytes.readUInt32LE(offset + 4) === 0 && end <= bytes.length) return end;
    }
    throw new GgufError("GGUF_TRUNCATED", {
      field: this.field,
      expected: "the strings that were indexed when the file was opened",
      found: "a string that runs past the array; the file has changed since",
    });
  }
}

/** The value of an array element; a string may also be given as bytes that need not be valid UTF-8. */
export type ArrayElement = GgufScalar | GgufArray | Uint8Array;

/** An array whose values are already in memory: nested arrays, the writer's input, and tests. */
export class MemoryArray extends ArrayBase {
  override readonly elementType: GgufValueType;
  readonly #values: ArrayLike<ArrayElement>;

  constructor(field: string, elementType: GgufValueType, values: ArrayLike<ArrayElement>) {
    super(field, values.length);
    this.elementType = elementType;
    this.#values = values;
  }

  override at(index: number): GgufValue {
    this.checkIndex(index);
    const value = this.#values[index] as ArrayElement;
    return value instanceof Uint8Array ? Buffer.from(value).toString("utf8") : value;
  }

  override bytesAt(index: number): Uint8Array {
    this.checkIndex(index);
    if (this.elementType !== "string") throw this.wrongElement("string elements");
    const value = this.#values[index] as ArrayElement;
    return value instanceof Uint8Array ? value : Buffer.from(String(value), "utf8");
  }

  override toNumbers(): Float64Array {
    if (this.elementType === "string" || this.elementType === "array") throw this.wrongElement("numeric elements");
    return Float64Array.from({ length: this.length }, (_, index) => {
      const value = this.#values[index];
      const number = Number(value);
      if (typeof value === "bigint" && !Number.isSafeInteger(number)) throw this.inexact(value);
      return number;
    });
  }

  override toStrings(): string[] {
    if (this.elementType !== "string") throw this.wrongElement("string elements");
    return Array.from({ length: this.length }, (_, index) => String(this.at(index)));
  }

  override *[Symbol.iterator](): IterableIterator<GgufValue> {
    for (let index = 0; index < this.length; index++) yield this.at(index);
  }
}

/** The name of a nested element in error messages: the key with its index. */
export function elementField(field: string, index: number): string {
  return `${field}[${index}]`;
}

/** Lists the element types that a reader accepts, for an error message. */
export function describeElementTypes(types: readonly GgufValueType[]): string {
  return `array of ${types.join(" or ")}`;
}
