// Reads the header of one part: magic, version, counts, metadata, tensor index, and the offset of the data. Invariant:
// the result has passed every check of this folder, and no tensor data has been read. Format: the GGUF specification.
// Version 1 had 32-bit counts and is not supported; versions 2 and 3 do not differ here.

import { GgufError } from "../errors.js";
import { PROBE_BYTES, recogniseForeignFile } from "./foreign-file.js";
import { HeaderCursor, type HeaderSource } from "./header-cursor.js";
import {
  DEFAULT_ALIGNMENT,
  FIXED_HEADER_BYTES,
  MAX_ALIGNMENT,
  MAX_METADATA_COUNT,
  MAX_TENSOR_COUNT,
  MIN_ALIGNMENT,
  MIN_METADATA_BYTES,
  MIN_TENSOR_INFO_BYTES,
} from "./limits.js";
import { type MetadataBudget, MetadataReader } from "./metadata-reader.js";
import { GgufMetadata } from "./metadata.js";
import { placeTensors, readTensorInfos, type GgufTensor } from "./tensor-index.js";
import { describeValue, quote } from "./value.js";

/** The first four bytes of a GGUF file. */
export const MAGIC = "GGUF";
/** The GGUF versions that can be read and written. */
const VERSIONS = [2, 3] as const;
/** A GGUF version that can be read and written. */
export type GgufVersion = (typeof VERSIONS)[number];
/** The version field of a big-endian file, read as little-endian, is at least this large. */
const SMALLEST_SWAPPED_VERSION = 0x0100_0000;

/** The header of one part: version, alignment, metadata and tensor index. */
export interface GgufHeader {
  readonly version: GgufVersion;
  readonly alignment: number;
  readonly metadata: GgufMetadata;
  readonly tensors: readonly GgufTensor[];
  /** The absolute byte offset of the tensor data. */
  readonly dataOffset: number;
}

/** Reads and checks the header of one part; `spent` accumulates the memory cost of all parts of a model. */
export function readHeader(source: HeaderSource, spent: MetadataBudget): GgufHeader {
  try {
    return parse(source, spent);
  } catch (error) {
    if (!(error instanceof GgufError)) throw error;
    // Fields are named as the header spells them; the file's path is added once, here.
    throw new GgufError(error.code, error.finding, { details: { path: source.path }, cause: error.cause });
  }
}

function parse(source: HeaderSource, spent: MetadataBudget): GgufHeader {
  const cursor = new HeaderCursor(source);
  requireMagic(cursor);
  const version = readVersion(cursor);
  const tensorCount = readCount(cursor, "header.tensor_count", MAX_TENSOR_COUNT);
  const metadataCount = readCount(cursor, "header.metadata_kv_count", MAX_METADATA_COUNT);
  cursor.require(metadataCount * MIN_METADATA_BYTES, "header.metadata_kv_count");
  cursor.require(tensorCount * MIN_TENSOR_INFO_BYTES, "header.tensor_count");
  const metadata = new GgufMetadata(new MetadataReader(cursor, spent).read(metadataCount).values());
  const alignment = readAlignment(metadata);
  const infos = readTensorInfos(cursor, tensorCount);
  const dataOffset = alignUp(cursor.position, alignment);
  const tensors = placeTensors(infos, { dataOffset, alignment, fileBytes: source.sizeBytes });
  return { version, alignment, metadata, tensors, dataOffset };
}

/** The smallest multiple of `alignment` at or after `position`. */
export function alignUp(position: number, alignment: number): number {
  return Math.ceil(position / alignment) * alignment;
}

function requireMagic(cursor: HeaderCursor): void {
  const field = "header.magic";
  const present = cursor.peekBytes(Math.min(MAGIC.length, cursor.remaining), field).toString("latin1");
  if (present === "" || present !== MAGIC.slice(0, present.length)) throw notGguf(cursor.source, field, present);
  // Checked second, so that a short file of another kind is reported as that kind.
  if (cursor.source.sizeBytes < FIXED_HEADER_BYTES) {
    const expected = `a header of at least ${FIXED_HEADER_BYTES} bytes`;
    throw new GgufError("GGUF_TRUNCATED", {
      field: "header",
      expected,
      found: `a file of ${cursor.source.sizeBytes} bytes`,
    });
  }
}

function notGguf(source: HeaderSource, field: string, present: string): GgufError {
  const bytes = Buffer.alloc(Math.min(PROBE_BYTES, source.sizeBytes));
  source.readSync(bytes, 0, field);
  const foreign = recogniseForeignFile({ bytes, sizeBytes: source.sizeBytes });
  const expected = "a GGUF model";
  if (source.sizeBytes === 0 && foreign !== undefined)
    return new GgufError("GGUF_TRUNCATED", { field: "header", expected, ...foreign });
  if (foreign !== undefined) return new GgufError("GGUF_NOT_GGUF", { field, expected, ...foreign });
  return new GgufError("GGUF_NOT_GGUF", {
    field,
    expected: quote(MAGIC),
    found: `${quote(present)}, as no format that is known here begins`,
  });
}

function readVersion(cursor: HeaderCursor): GgufVersion {
  const field = "header.version";
  const found = cursor.uint32(field);
  const version = VERSIONS.find((known) => known === found);
  if (version !== undefined) return version;
  if (found >= SMALLEST_SWAPPED_VERSION && (found & 0x00ff_ffff) === 0) {
    const expected = "a little-endian file; convert it on the machine that wrote it";
    throw new GgufError("GGUF_BIG_ENDIAN", {
      field,
      expected,
      found: `big-endian version ${found / SMALLEST_SWAPPED_VERSION}`,
    });
  }
  throw new GgufError("GGUF_VERSION", { field, expected: `version ${VERSIONS.join(" or ")}`, found: String(found) });
}

function readCount(cursor: HeaderCursor, field: string, limit: number): number {
  const count = cursor.uint64(field);
  if (count > limit) throw new GgufError("GGUF_LIMIT", { field, expected: `at most ${limit}`, found: String(count) });
  return Number(count);
}

function readAlignment(metadata: GgufMetadata): number {
  const field = "general.alignment";
  const type = metadata.typeOf(field);
  const value = metadata.get(field);
  if (type === undefined || value === undefined) return DEFAULT_ALIGNMENT;
  const fits = type === "uint32" && typeof value === "number" && value >= MIN_ALIGNMENT && value <= MAX_ALIGNMENT;
  if (fits && (value & (value - 1)) === 0) return value;
  const expected = `a uint32 power of two from ${MIN_ALIGNMENT} to ${MAX_ALIGNMENT}`;
  throw new GgufError("GGUF_ALIGNMENT", { field, expected, found: describeValue(type, value) });
}
