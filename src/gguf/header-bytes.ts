// A header as bytes, from which another thread builds the same metadata without reopening the file: the file may have
// been replaced on disk, and these bytes are of the one that is open.

import { GgufError } from "../errors.js";
import { readHeader } from "./header.js";
import type { HeaderSource } from "./header-cursor.js";
import type { GgufMetadata } from "./metadata.js";

/** The header of an open file, in a form that can be posted to another thread. */
export interface HeaderBytes {
  readonly path: string;
  /** The size of the whole file. */
  readonly sizeBytes: number;
  /** The file's bytes from its beginning to the start of the tensor data. */
  readonly bytes: Uint8Array;
}

/** Parses the metadata of a header that was read on another thread. */
export function metadataOf({ path, sizeBytes, bytes }: HeaderBytes): GgufMetadata {
  const requireSize = (endBytes: number, field: string): void => {
    if (endBytes > bytes.length)
      throw new GgufError("GGUF_TRUNCATED", {
        field,
        expected: `a header of at least ${endBytes} bytes`,
        found: `one of ${bytes.length}`,
      });
  };
  const source: HeaderSource = {
    path,
    sizeBytes,
    requireSize,
    readSync: (target, position, field) => {
      // The reader's window may reach into the tensor data, which it does not use.
      const end = Math.min(position + target.byteLength, bytes.length);
      if (position >= end) requireSize(position + target.byteLength, field);
      target.set(bytes.subarray(position, end));
    },
  };
  return readHeader(source, { decodedBytes: 0, nestedArrays: 0 }).metadata;
}
