// Encodes a GGUF header: counts, metadata, tensor index. The counterpart of header.ts with the same rules: it refuses
// (OPTION_VALUE) whatever the reader would refuse. Tests that need a broken file change its bytes.

import { OptionError } from "../errors.js";
import { layoutByName, type BlockTypeName } from "../quant/layout.js";
import type { GgufArray } from "./array.js";
import { MAGIC, alignUp, type GgufVersion } from "./header.js";
import {
  DEFAULT_ALIGNMENT,
  MAX_ALIGNMENT,
  MAX_DIMENSIONS,
  MAX_KEY_BYTES,
  MAX_TENSOR_NAME_BYTES,
  MIN_ALIGNMENT,
} from "./limits.js";
import type { GgufEntry } from "./metadata.js";
import { fixedBytes, isFixed, isInteger, valueTypeId, type FixedValueType, type GgufScalar } from "./value.js";

/** A tensor to be written: its name, block type and shape. */
export interface TensorPlan {
  readonly name: string;
  readonly type: BlockTypeName;
  readonly shape: readonly number[];
}

/** The header to be written: version, alignment, metadata and tensors. */
export interface HeaderPlan {
  readonly version?: GgufVersion;
  /** Written as `general.alignment` if it is not the default. */
  readonly alignment?: number;
  readonly metadata: readonly GgufEntry[];
  readonly tensors: readonly TensorPlan[];
}

/** An encoded header, and where each tensor's data goes. */
export interface EncodedHeader {
  /** The encoded header, padded up to the first tensor. */
  readonly bytes: Buffer;
  /** The absolute byte range of each tensor, in the order of the plan's tensors. */
  readonly ranges: readonly { readonly offset: number; readonly sizeBytes: number }[];
  readonly fileBytes: number;
}

const CURRENT_VERSION = 3;
const INITIAL_BYTES = 64 * 1024;

/** Encodes a header; throws OPTION_VALUE for anything that the reader would refuse. */
export function encodeHeader(plan: HeaderPlan): EncodedHeader {
  const metadata = withAlignment(plan);
  const alignment = alignmentOf(metadata);
  const bytes = new ByteBuilder();
  bytes.append(Buffer.from(MAGIC, "latin1"));
  bytes.fixed("uint32", plan.version ?? CURRENT_VERSION, "header.version");
  bytes.fixed("uint64", plan.tensors.length, "header.tensor_count");
  bytes.fixed("uint64", metadata.length, "header.metadata_kv_count");
  requireUnique(
    "key",
    metadata.map(({ key }) => key),
    MAX_KEY_BYTES,
  );
  requireUnique(
    "tensor name",
    plan.tensors.map(({ name }) => name),
    MAX_TENSOR_NAME_BYTES,
  );
  for (const entry of metadata) encodeEntry(bytes, entry);
  const relative = encodeTensors(bytes, plan.tensors, alignment);
  const dataOffset = alignUp(bytes.length, alignment);
  bytes.append(Buffer.alloc(dataOffset - bytes.length));
  const ranges = relative.map(({ offset, sizeBytes }) => ({ offset: dataOffset + offset, sizeBytes }));
  const last = ranges.at(-1);
  return {
    bytes: bytes.take(),
    ranges,
    fileBytes: last === undefined ? dataOffset : alignUp(last.offset + last.sizeBytes, alignment),
  };
}

function withAlignment({ alignment, metadata }: HeaderPlan): readonly GgufEntry[] {
  const stated = metadata.find(({ key }) => key === "general.alignment");
  if (stated !== undefined && stated.type !== "uint32") throw refusal("general.alignment", "a uint32", stated.type);
  if (stated !== undefined && alignment !== undefined && stated.value !== alignment) {
    throw refusal("general.alignment", `${alignment}, as the plan says`, String(stated.value));
  }
  if (alignment === undefined || stated !== undefined) return metadata;
  return alignment === DEFAULT_ALIGNMENT
    ? metadata
    : [{ key: "general.alignment", type: "uint32", value: alignment }, ...metadata];
}

function alignmentOf(metadata: readonly GgufEntry[]): number {
  const value = metadata.find(({ key }) => key === "general.alignment")?.value ?? DEFAULT_ALIGNMENT;
  if (
    typeof value === "number" &&
    value >= MIN_ALIGNMENT &&
    value <= MAX_ALIGNMENT &&
    Number.isInteger(Math.log2(value))
  )
    return value;
  throw refusal("general.alignment", `a power of two from ${MIN_ALIGNMENT} to ${MAX_ALIGNMENT}`, String(value));
}

function requireUnique(what: string, names: readonly string[], maxBytes: number): void {
  const seen = new Set<string>();
  for (const name of names) {
    const lengthBytes = Buffer.byteLength(name);
    if (lengthBytes === 0 || lengthBytes > maxBytes)
      throw refusal(what, `1 to ${maxBytes} bytes`, JSON.stringify(name.slice(0, 80)));
    if (seen.has(name)) throw refusal(what, "unique ones", `a second ${name}`);
    seen.add(name);
  }
}

function encodeEntry(bytes: ByteBuilder, entry: GgufEntry): void {
  bytes.string(Buffer.from(entry.key, "utf8"));
  bytes.fixed("uint32", valueTypeId(entry.type), entry.key);
  if (entry.type === "array") encodeArray(bytes, entry.value, entry.key);
  else if (entry.type === "string") bytes.string(Buffer.from(requireText(entry.key, entry.value), "utf8"));
  else bytes.fixed(entry.type, entry.value, entry.key);
}

function requireText(key: string, value: unknown): string {
  if (typeof value !== "string") throw refusal(key, "text", typeof value);
  return value;
}

function encodeArray(bytes: ByteBuilder, array: GgufArray, field: string): void {
  const { elementType } = array;
  bytes.fixed("uint32", valueTypeId(elementType), field);
  bytes.fixed("uint64", array.length, field);
  for (let index = 0; index < array.length; index++) {
    if (elementType === "string") {
      bytes.string(array.bytesAt(index));
      continue;
    }
    const value = array.at(index);
    if (isFixed(elementType) && typeof value !== "object") bytes.fixed(elementType, value, field);
    else if (typeof value === "object") encodeArray(bytes, value, field);
    else throw refusal(field, "inner arrays", typeof value);
  }
}

function encodeTensors(
  bytes: ByteBuilder,
  tensors: readonly TensorPlan[],
  alignment: number,
): { offset: number; sizeBytes: number }[] {
  let offset = 0;
  return tensors.map(({ name, type, shape }) => {
    const sizeBytes = tensorBytes(name, type, shape);
    bytes.string(Buffer.from(name, "utf8"));
    bytes.fixed("uint32", shape.length, name);
    for (const dimension of shape) bytes.fixed("uint64", dimension, name);
    bytes.fixed("uint32", layoutByName(type).id, name);
    bytes.fixed("uint64", offset, name);
    const range = { offset, sizeBytes };
    offset = alignUp(offset + sizeBytes, alignment);
    return range;
  });
}

function tensorBytes(name: string, type: BlockTypeName, shape: readonly number[]): number {
  const { blockElements, blockBytes } = layoutByName(type);
  const positive = shape.every((dimension) => Number.isSafeInteger(dimension) && dimension > 0);
  const [rowElements] = shape;
  if (rowElements === undefined || shape.length > MAX_DIMENSIONS || !positive || rowElements % blockElements !== 0) {
    throw refusal(
      `${name}.shape`,
      `1 to ${MAX_DIMENSIONS} positive dimensions, the first a multiple of ${blockElements}`,
      `[${shape.join(", ")}]`,
    );
  }
  const sizeBytes = (shape.reduce((count, dimension) => count * dimension, 1) / blockElements) * blockBytes;
  if (!Number.isSafeInteger(sizeBytes))
    throw refusal(`${name}.shape`, "a size of at most 2^53 - 1 bytes", `[${shape.join(", ")}]`);
  return sizeBytes;
}

function refusal(field: string, expected: string, found: string): OptionError {
  return new OptionError("OPTION_VALUE", `[gguf] cannot write ${field}: expected ${expected}, found ${found}`, {
    details: { field, expected, found },
  });
}

/** A byte buffer that grows by doubling, so that a vocabulary of half a million strings takes one pass. */
class ByteBuilder {
  #bytes = Buffer.alloc(INITIAL_BYTES);
  length = 0;

  take(): Buffer {
    return this.#bytes.subarray(0, this.length);
  }

  append(more: Uint8Array): void {
    this.#reserve(more.byteLength);
    this.#bytes.set(more, this.length);
    this.length += more.byteLength;
  }

  string(text: Uint8Array): void {
    this.fixed("uint64", text.byteLength, "a string's length");
    this.append(text);
  }

  fixed(type: FixedValueType, value: GgufScalar, field: string): void {
    const sizeBytes = fixedBytes(type);
    this.#reserve(sizeBytes);
    writeFixed(this.#bytes, this.length, type, value, field);
    this.length += sizeBytes;
  }

  #reserve(moreBytes: number): void {
    if (this.length + moreBytes <= this.#bytes.length) return;
    const grown = Buffer.alloc(Math.max(this.#bytes.length * 2, this.length + moreBytes));
    this.#bytes.copy(grown, 0, 0, this.length);
    this.#bytes = grown;
  }
}

function writeFixed(bytes: Buffer, offset: number, type: FixedValueType, value: GgufScalar, field: string): void {
  const wanted = type === "bool" ? "boolean" : isInteger(type) && typeof value === "bigint" ? "bigint" : "number";
  const whole = !isInteger(type) || typeof value === "bigint" || Number.isSafeInteger(value);
  if (typeof value !== wanted || !whole)
    throw refusal(field, `a value of type ${type}`, `${typeof value} ${String(value)}`);
  const sizeBytes = fixedBytes(type);
  try {
    if (type === "float32") bytes.writeFloatLE(Number(value), offset);
    else if (type === "float64") bytes.writeDoubleLE(Number(value), offset);
    else if (type === "uint64") bytes.writeBigUInt64LE(BigInt(value), offset);
    else if (type === "int64") bytes.writeBigInt64LE(BigInt(value), offset);
    else if (type.startsWith("int")) bytes.writeIntLE(Number(value), offset, sizeBytes);
    else bytes.writeUIntLE(Number(value), offset, sizeBytes);
  } catch (error) {
    if (error instanceof RangeError) throw refusal(field, `a value that fits ${type}`, String(value));
    throw error;
  }
}
