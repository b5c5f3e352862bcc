// The key-value half of a GGUF header, with getters that check types. Invariants: keys are unique and keep the file's
// order; a getter returns undefined for an absent key and throws GGUF_VALUE for a value of another type, so an invalid
// value is never mistaken for a default.

import { GgufError } from "../errors.js";
import { MemoryArray, describeElementTypes, type GgufArray } from "./array.js";
import { describeValue, isFixed, isInteger, type GgufScalar, type GgufValue, type GgufValueType } from "./value.js";

/** A key with its typed value. The helpers of entry.ts build these. */
export type GgufEntry =
  | { readonly key: string; readonly type: "array"; readonly value: GgufArray }
  | { readonly key: string; readonly type: Exclude<GgufValueType, "array">; readonly value: GgufScalar };

/**
 * A value whose type `GgufMetadata.of` infers: whole numbers are int32 (int64 if they do not fit), others float32, an
 * empty array one of strings. If the exact type matters, use the helpers of entry.ts.
 */
export type PlainValue = GgufScalar | GgufArray | readonly GgufScalar[];

/** The metadata of a GGUF file, with getters that check types. */
export class GgufMetadata {
  readonly #entries: ReadonlyMap<string, GgufEntry>;

  /** If a key is repeated, the last entry wins; the reader refuses repeated keys before. */
  constructor(entries: Iterable<GgufEntry>) {
    this.#entries = new Map(Array.from(entries, (entry) => [entry.key, entry]));
  }

  /** Metadata from plain values, for tests and synthetic models in which the exact integer width does not matter. */
  static of(record: Readonly<Record<string, PlainValue>>): GgufMetadata {
    return new GgufMetadata(Object.entries(record).map(([key, value]) => inferEntry(key, value)));
  }

  get size(): number {
    return this.#entries.size;
  }

  keys(): IterableIterator<string> {
    return this.#entries.keys();
  }

  entries(): IterableIterator<GgufEntry> {
    return this.#entries.values();
  }

  has(key: string): boolean {
    return this.#entries.has(key);
  }

  typeOf(key: string): GgufValueType | undefined {
    return this.#entries.get(key)?.type;
  }

  get(key: string): GgufValue | undefined {
    return this.#entries.get(key)?.value;
  }

  string(key: string): string | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined) return undefined;
    if (typeof entry.value !== "string") throw wrongType(entry, "a string");
    return entry.value;
  }

  /** A value of any numeric type; it must be finite, and exact if it is an integer. */
  number(key: string): number | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined) return undefined;
    const { type, value } = entry;
    if (!isFixed(type) || type === "bool") throw wrongType(entry, "a number");
    if (typeof value !== "number" || !Number.isFinite(value)) {
      throw wrongType(entry, isInteger(type) ? "an integer of at most 2^53 - 1" : "a finite number");
    }
    return value;
  }

  /** A value of any integer type, signed or unsigned. */
  integer(key: string): number | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined) return undefined;
    if (!isInteger(entry.type)) throw wrongType(entry, "an integer");
    return this.number(key);
  }

  boolean(key: string): boolean | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined) return undefined;
    if (typeof entry.value !== "boolean") throw wrongType(entry, "a bool");
    return entry.value;
  }

  /** An array, of one of `elementTypes` if they are given. */
  array(key: string, elementTypes?: readonly GgufValueType[]): GgufArray | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined) return undefined;
    if (entry.type !== "array")
      throw wrongType(entry, elementTypes === undefined ? "an array" : describeElementTypes(elementTypes));
    if (elementTypes !== undefined && !elementTypes.includes(entry.value.elementType)) {
      throw wrongType(entry, describeElementTypes(elementTypes));
    }
    return entry.value;
  }
}

function wrongType(entry: GgufEntry, expected: string): GgufError {
  return new GgufError("GGUF_VALUE", { field: entry.key, expected, found: describeValue(entry.type, entry.value) });
}

function inferScalarType(values: readonly GgufScalar[]): Exclude<GgufValueType, "array"> {
  const [first] = values;
  if (first === undefined || typeof first === "string") return "string";
  if (typeof first === "boolean") return "bool";
  if (values.every((value) => Number(value) === (Number(value) | 0))) return "int32";
  return values.every((value) => typeof value === "bigint" || Number.isSafeInteger(value)) ? "int64" : "float32";
}

function inferEntry(key: string, value: PlainValue): GgufEntry {
  if (typeof value !== "object") return { key, type: inferScalarType([value]), value };
  if ("elementType" in value) return { key, type: "array", value };
  return { key, type: "array", value: new MemoryArray(key, inferScalarType(value), value) };
}
