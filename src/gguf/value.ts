// The thirteen value types of GGUF metadata: their ids, sizes, and how a number of each is read from bytes. Invariant:
// a 64-bit integer is a `number` if that is exact and a `bigint` if not. Format: the GGUF specification, versions 2 and
// 3, little-endian.

import { GgufError } from "../errors.js";
import type { GgufArray } from "./array.js";

/** Type names in the order of the format's ids: the index of a name is its id. */
export const VALUE_TYPES = [
  "uint8",
  "int8",
  "uint16",
  "int16",
  "uint32",
  "int32",
  "float32",
  "bool",
  "string",
  "array",
  "uint64",
  "int64",
  "float64",
] as const;

/** The name of a metadata value's type. */
export type GgufValueType = (typeof VALUE_TYPES)[number];
/** Value types whose elements all have the same size. */
export type FixedValueType = Exclude<GgufValueType, "string" | "array">;
/** Value types that are integers, signed or unsigned. */
type IntegerValueType = Exclude<FixedValueType, "float32" | "float64" | "bool">;

/** A metadata value that is not an array. */
export type GgufScalar = number | bigint | boolean | string;
/** A metadata value. */
export type GgufValue = GgufScalar | GgufArray;

const FIXED_BYTES: { readonly [K in FixedValueType]: number } = {
  uint8: 1,
  int8: 1,
  uint16: 2,
  int16: 2,
  uint32: 4,
  int32: 4,
  float32: 4,
  bool: 1,
  uint64: 8,
  int64: 8,
  float64: 8,
};

/** Whether all elements of a type have the same size. */
export function isFixed(type: GgufValueType): type is FixedValueType {
  return type !== "string" && type !== "array";
}

/** Whether a type is an integer, signed or unsigned. */
export function isInteger(type: GgufValueType): type is IntegerValueType {
  return isFixed(type) && type !== "bool" && type !== "float32" && type !== "float64";
}

/** The size in bytes of one element of a fixed-size type. */
export function fixedBytes(type: FixedValueType): number {
  return FIXED_BYTES[type];
}

/** The type with this id in a file; undefined if there is none. */
export function valueTypeById(id: number): GgufValueType | undefined {
  return VALUE_TYPES[id];
}

/** The id of a type in a file. */
export function valueTypeId(type: GgufValueType): number {
  return VALUE_TYPES.indexOf(type);
}

function exact(value: bigint): number | bigint {
  const narrowed = Number(value);
  return Number.isSafeInteger(narrowed) ? narrowed : value;
}

/** Reads one value of a fixed-size type; the error of a bool that is neither 0 nor 1 names `field`. */
export function readFixed(
  type: FixedValueType,
  bytes: Buffer,
  offset: number,
  field: string,
): number | bigint | boolean {
  switch (type) {
    case "uint8":
      return bytes.readUInt8(offset);
    case "int8":
      return bytes.readInt8(offset);
    case "uint16":
      return bytes.readUInt16LE(offset);
    case "int16":
      return bytes.readInt16LE(offset);
    case "uint32":
      return bytes.readUInt32LE(offset);
    case "int32":
      return bytes.readInt32LE(offset);
    case "float32":
      return bytes.readFloatLE(offset);
    case "float64":
      return bytes.readDoubleLE(offset);
    case "uint64":
      return exact(bytes.readBigUInt64LE(offset));
    case "int64":
      return exact(bytes.readBigInt64LE(offset));
    case "bool": {
      const byte = bytes.readUInt8(offset);
      if (byte > 1) throw new GgufError("GGUF_VALUE", { field, expected: "a bool of 0 or 1", found: String(byte) });
      return byte === 1;
    }
    default:
      return type satisfies never;
  }
}

/** A value as an error message shows it: short, quoted, without control characters. */
export function describeValue(type: GgufValueType, value: GgufValue): string {
  if (typeof value === "object") return `array of ${value.length} ${value.elementType}`;
  if (typeof value !== "string") return `${type} ${String(value)}`;
  return `${type} ${quote(value)}`;
}

const QUOTED_CHARACTERS = 80;

/** Untrusted text, escaped for a terminal and a log line. */
export function quote(text: string): string {
  return JSON.stringify(text.length > QUOTED_CHARACTERS ? `${text.slice(0, QUOTED_CHARACTERS)}…` : text);
}
