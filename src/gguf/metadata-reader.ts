// Reads the key-value pairs of a header. Scalars are decoded at once; arrays become byte ranges, and string arrays are
// walked once to check them and to record the offset of every 64th string. Invariant: a count is compared with its
// limit and with the bytes left before anything is allocated for it.

import { isUtf8 } from "node:buffer";
import { GgufError } from "../errors.js";
import {
  CHECKPOINT_STRINGS,
  FixedArray,
  MemoryArray,
  StringArray,
  elementField,
  type ArrayBytes,
  type GgufArray,
} from "./array.js";
import type { HeaderCursor } from "./header-cursor.js";
import {
  MAX_ARRAY_DEPTH,
  MAX_ARRAY_ELEMENTS,
  MAX_DECODED_BYTES,
  MAX_KEY_BYTES,
  MAX_NESTED_ARRAYS,
  MAX_STRING_BYTES,
  MAX_STRING_ELEMENTS,
  MIN_ARRAY_BYTES,
  MIN_STRING_BYTES,
} from "./limits.js";
import type { GgufEntry } from "./metadata.js";
import { VALUE_TYPES, fixedBytes, isFixed, quote, readFixed, valueTypeById, type GgufValueType } from "./value.js";

// Escape sequences in a name could control the terminal on which the file is listed.
const CONTROL_CHARACTER = /\p{Cc}/u;

/** Why a text cannot be used as a name, which has to be valid UTF-8 and printable; undefined if it can. */
export function nameFault(text: string, bytes: Uint8Array): string | undefined {
  if (!isUtf8(bytes)) return `${quote(text)}, which is not valid UTF-8`;
  return CONTROL_CHARACTER.test(text) ? `${quote(text)}, which has control characters` : undefined;
}

/** What the headers of one model have cost in memory so far, all parts together. */
export interface MetadataBudget {
  decodedBytes: number;
  nestedArrays: number;
}

/** Reads and checks the key-value pairs of one header. */
export class MetadataReader {
  readonly #cursor: HeaderCursor;
  readonly #spent: MetadataBudget;

  constructor(cursor: HeaderCursor, spent: MetadataBudget) {
    this.#cursor = cursor;
    this.#spent = spent;
  }

  read(count: number): Map<string, GgufEntry> {
    const entries = new Map<string, GgufEntry>();
    for (let index = 0; index < count; index++) {
      const field = `metadata[${index}].key`;
      const key = this.#key(field);
      if (entries.has(key))
        throw new GgufError("GGUF_KEY", { field, expected: "unique keys", found: `a second ${quote(key)}` });
      entries.set(key, this.#entry(key));
    }
    return entries;
  }

  #key(field: string): string {
    const length = this.#cursor.uint64(field);
    if (length === 0 || length > MAX_KEY_BYTES) {
      throw new GgufError("GGUF_KEY", {
        field,
        expected: `a key of 1 to ${MAX_KEY_BYTES} bytes`,
        found: `a length of ${length}`,
      });
    }
    const { text, bytes } = this.#decode(Number(length), field);
    const fault = nameFault(text, bytes);
    if (fault !== undefined) throw new GgufError("GGUF_KEY", { field, expected: "a printable key", found: fault });
    return text;
  }

  #entry(key: string): GgufEntry {
    const type = this.#valueType(key);
    if (type === "array") return { key, type, value: this.#array(key, 1) };
    if (type === "string") return { key, type, value: this.#decode(this.#stringLength(key), key).text };
    return { key, type, value: readFixed(type, this.#cursor.peekBytes(fixedBytes(type), key), 0, key) };
  }

  #valueType(field: string): GgufValueType {
    const id = this.#cursor.uint32(field);
    const type = valueTypeById(id);
    if (type !== undefined) return type;
    throw new GgufError("GGUF_VALUE", {
      field,
      expected: `a value type of 0 to ${VALUE_TYPES.length - 1}`,
      found: `type ${id}`,
    });
  }

  #stringLength(field: string): number {
    const length = this.#cursor.uint64(field);
    // The end of the file is checked first: a damaged length is far more likely than a huge string.
    this.#cursor.require(length, field);
    if (length > MAX_STRING_BYTES) throw limit(field, "a string", "bytes", MAX_STRING_BYTES, length);
    return Number(length);
  }

  #decode(lengthBytes: number, field: string): { readonly text: string; readonly bytes: Buffer } {
    this.#spent.decodedBytes += lengthBytes;
    if (this.#spent.decodedBytes > MAX_DECODED_BYTES) {
      throw limit(field, "keys and string values together", "bytes", MAX_DECODED_BYTES, this.#spent.decodedBytes);
    }
    return this.#cursor.text(lengthBytes, field);
  }

  #array(field: string, depth: number): GgufArray {
    const elementType = this.#valueType(field);
    const count = this.#cursor.uint64(field);
    const elementBytes = isFixed(elementType)
      ? fixedBytes(elementType)
      : elementType === "string"
        ? MIN_STRING_BYTES
        : MIN_ARRAY_BYTES;
    // BigInt, because an unchecked count times a size can exceed 2^53.
    this.#cursor.require(BigInt(count) * BigInt(elementBytes), field);
    const most = elementType === "string" ? MAX_STRING_ELEMENTS : MAX_ARRAY_ELEMENTS;
    if (count > most) throw limit(field, `an array of ${elementType}`, "elements", most, count);
    const length = Number(count);
    if (elementType === "array") return this.#nested(field, length, depth);
    const start = this.#cursor.position;
    if (elementType === "string") {
      const checkpoints = this.#indexStrings(field, length);
      return new StringArray(this.#range(field, start), length, checkpoints);
    }
    this.#cursor.skip(length * elementBytes, field);
    return new FixedArray(this.#range(field, start), elementType, length);
  }

  #nested(field: string, length: number, depth: number): GgufArray {
    if (depth >= MAX_ARRAY_DEPTH) throw limit(field, "arrays", "levels deep", MAX_ARRAY_DEPTH, depth + 1);
    this.#spent.nestedArrays += length;
    if (this.#spent.nestedArrays > MAX_NESTED_ARRAYS)
      throw limit(field, "inner arrays", "in a model", MAX_NESTED_ARRAYS, this.#spent.nestedArrays);
    const inner: GgufArray[] = [];
    for (let index = 0; index < length; index++) inner.push(this.#array(elementField(field, index), depth + 1));
    return new MemoryArray(field, "array", inner);
  }

  #indexStrings(field: string, length: number): Uint32Array {
    const refuse = (index: number, lengthBytes: bigint): never => {
      this.#cursor.require(lengthBytes, elementField(field, index));
      throw limit(elementField(field, index), "a string", "bytes", MAX_STRING_BYTES, lengthBytes);
    };
    return this.#cursor.indexStrings(length, CHECKPOINT_STRINGS, MAX_STRING_BYTES, refuse, field);
  }

  #range(field: string, start: number): ArrayBytes {
    const { source, position: end } = this.#cursor;
    return {
      field,
      read() {
        source.requireSize(end, field);
        const bytes = Buffer.allocUnsafeSlow(end - start);
        source.readSync(bytes, start, field);
        return bytes;
      },
    };
  }
}

function limit(field: string, what: string, unit: string, allowed: number, found: number | bigint): GgufError {
  return new GgufError("GGUF_LIMIT", {
    field,
    expected: `${what} of at most ${allowed} ${unit}`,
    found: String(found),
  });
}
