// Reads and checks the tensor index of one part. Invariants of every tensor in the result: a unique printable name, one
// to four positive dimensions, whole blocks per row, sizes exact in a `number`, and a byte range that is aligned,
// inside the file and shared with no other tensor.

import { GgufError } from "../errors.js";
import {
  REMOVED_TYPES,
  SUPPORTED,
  describeTypeId,
  isSupported,
  layoutById,
  type BlockLayout,
  type SupportedLayout,
} from "../quant/layout.js";
import type { HeaderCursor } from "./header-cursor.js";
import { MAX_DIMENSIONS, MAX_TENSOR_NAME_BYTES } from "./limits.js";
import { nameFault } from "./metadata-reader.js";
import { quote } from "./value.js";

/** An entry of a file's tensor index: name, shape, block type and where the data is. */
export interface GgufTensor {
  readonly name: string;
  readonly layout: BlockLayout;
  /** The dimensions in GGUF order: the first is the row length. */
  readonly shape: readonly number[];
  readonly elements: number;
  readonly sizeBytes: number;
  /** The part of a split model that contains the data; 0 for a single file. */
  readonly part: number;
  /** The absolute byte offset in its part. */
  readonly offset: number;
}

/** A tensor as the header declares it, with its offset relative to the data section. */
interface TensorInfo extends Omit<GgufTensor, "part" | "offset"> {
  readonly relativeOffset: number | bigint;
}

/** Reads `count` entries of the tensor index, with offsets relative to the data section. */
export function readTensorInfos(cursor: HeaderCursor, count: number): TensorInfo[] {
  const infos: TensorInfo[] = [];
  const names = new Set<string>();
  for (let index = 0; index < count; index++) {
    const field = `tensor[${index}].name`;
    const name = readName(cursor, field);
    if (names.has(name))
      throw new GgufError("GGUF_TENSOR_NAME", { field, expected: "unique names", found: `a second ${quote(name)}` });
    names.add(name);
    infos.push(readInfo(cursor, name));
  }
  return infos;
}

/**
 * Turns relative offsets into byte ranges and checks them against the file and each other; split.ts sets the part
 * numbers.
 */
export function placeTensors(
  infos: readonly TensorInfo[],
  place: { readonly dataOffset: number; readonly alignment: number; readonly fileBytes: number },
): GgufTensor[] {
  const tensors = infos.map(({ relativeOffset, ...info }): GgufTensor => {
    const field = `${info.name}.offset`;
    if (BigInt(relativeOffset) % BigInt(place.alignment) !== 0n) {
      const expected = `a multiple of the alignment, ${place.alignment}`;
      throw new GgufError("GGUF_TENSOR_OFFSET", { field, expected, found: String(relativeOffset) });
    }
    const end = BigInt(place.dataOffset) + BigInt(relativeOffset) + BigInt(info.sizeBytes);
    if (end > Number.MAX_SAFE_INTEGER) {
      throw new GgufError("GGUF_TENSOR_OFFSET", {
        field,
        expected: "offset plus size within 2^53 - 1",
        found: `${relativeOffset} plus ${info.sizeBytes}`,
      });
    }
    return { ...info, part: 0, offset: place.dataOffset + Number(relativeOffset) };
  });
  requireInside(tensors, place.fileBytes);
  requireApart(tensors);
  return tensors;
}

/** Refuses a type that has a known size but no decoder, with the same error as an unknown type. */
export function requireSupported(layout: BlockLayout, tensorName: string): SupportedLayout {
  if (isSupported(layout)) return layout;
  throw unsupportedType(layout.id, tensorName);
}

function unsupportedType(id: number, tensorName: string): GgufError {
  const advice = REMOVED_TYPES.has(id) ? "; the type was withdrawn, convert the model again" : "";
  return new GgufError(
    "GGUF_TENSOR_TYPE",
    {
      field: `${tensorName}.type`,
      expected: `one of ${SUPPORTED.map(({ name }) => name).join(", ")}`,
      found: `${describeTypeId(id)}${advice}`,
    },
    { details: { tensor: tensorName, typeId: id } },
  );
}

function readName(cursor: HeaderCursor, field: string): string {
  const length = cursor.uint64(field);
  if (length === 0 || length > MAX_TENSOR_NAME_BYTES) {
    const expected = `a name of 1 to ${MAX_TENSOR_NAME_BYTES} bytes`;
    throw new GgufError("GGUF_TENSOR_NAME", { field, expected, found: `a length of ${length}` });
  }
  const { text, bytes } = cursor.text(Number(length), field);
  const fault = nameFault(text, bytes);
  if (fault !== undefined)
    throw new GgufError("GGUF_TENSOR_NAME", { field, expected: "a printable name", found: fault });
  return text;
}

function readInfo(cursor: HeaderCursor, name: string): TensorInfo {
  const field = `${name}.shape`;
  const dimensionCount = cursor.uint32(field);
  if (dimensionCount === 0 || dimensionCount > MAX_DIMENSIONS) {
    throw new GgufError("GGUF_TENSOR_SHAPE", {
      field,
      expected: `1 to ${MAX_DIMENSIONS} dimensions`,
      found: String(dimensionCount),
    });
  }
  const dimensions = Array.from({ length: dimensionCount }, () => cursor.uint64(field));
  const typeId = cursor.uint32(`${name}.type`);
  const layout = layoutById(typeId);
  if (layout === undefined) throw unsupportedType(typeId, name);
  const elements = countElements(dimensions, field);
  const shape = dimensions.map(Number);
  const rowElements = shape[0] as number;
  if (rowElements % layout.blockElements !== 0) {
    const expected = `a row length that is a multiple of ${layout.blockElements}, the block of ${layout.name}`;
    throw new GgufError("GGUF_TENSOR_SHAPE", { field, expected, found: String(rowElements) });
  }
  const sizeBytes = (BigInt(elements) / BigInt(layout.blockElements)) * BigInt(layout.blockBytes);
  if (sizeBytes > Number.MAX_SAFE_INTEGER) {
    throw new GgufError("GGUF_TENSOR_SHAPE", {
      field,
      expected: "at most 2^53 - 1 bytes",
      found: `${sizeBytes} bytes`,
    });
  }
  return {
    name,
    layout,
    shape,
    elements,
    sizeBytes: Number(sizeBytes),
    relativeOffset: cursor.uint64(`${name}.offset`),
  };
}

function countElements(dimensions: readonly (number | bigint)[], field: string): number {
  const signed = dimensions.map((dimension) => BigInt.asIntN(64, BigInt(dimension)));
  const described = `[${signed.join(", ")}]`;
  if (signed.some((dimension) => dimension <= 0n)) {
    throw new GgufError("GGUF_TENSOR_SHAPE", { field, expected: "positive dimensions", found: described });
  }
  const elements = signed.reduce((count, dimension) => count * dimension, 1n);
  if (elements > Number.MAX_SAFE_INTEGER) {
    throw new GgufError("GGUF_TENSOR_SHAPE", { field, expected: "at most 2^53 - 1 elements", found: described });
  }
  return Number(elements);
}

function requireInside(tensors: readonly GgufTensor[], fileBytes: number): void {
  // The tensor that reaches furthest shows how large the whole file should have been.
  let last: GgufTensor | undefined;
  for (const tensor of tensors) {
    if (last === undefined || tensor.offset + tensor.sizeBytes > last.offset + last.sizeBytes) last = tensor;
  }
  if (last === undefined || last.offset + last.sizeBytes <= fileBytes) return;
  throw new GgufError("GGUF_TRUNCATED", {
    field: `${last.name}.data`,
    expected: `a file of at least ${last.offset + last.sizeBytes} bytes`,
    found: `one of ${fileBytes} bytes; it may be an unfinished download`,
  });
}

function requireApart(tensors: readonly GgufTensor[]): void {
  const byOffset = tensors.toSorted((left, right) => left.offset - right.offset);
  for (let index = 1; index < byOffset.length; index++) {
    const before = byOffset[index - 1] as GgufTensor;
    const after = byOffset[index] as GgufTensor;
    if (after.offset >= before.offset + before.sizeBytes) continue;
    throw new GgufError("GGUF_TENSOR_OFFSET", {
      field: `${after.name}.offset`,
      expected: `data behind that of ${before.name}, at ${before.offset + before.sizeBytes} or later`,
      found: String(after.offset),
    });
  }
}
