// A header as bytes: what another thread needs to make the same metadata of, without the file. It may have been replaced
// on disk meanwhile, and these are the bytes of the one that is open.

import { GgufError } from "../errors.js";
import { readHeader } from "./header.js";
import type { HeaderSource } from "./header-cursor.js";
import type { GgufMetadata } from "./metadata.js";

/** Can be sent to another thread. */
export interface HeaderBytes {
  readonly path: string;
  /** Of the whole file. */
  readonly sizeBytes: number;
  /** From its beginning to where the tensor data begins. */
  readonly bytes: Uint8Array;
}

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
      // The reader's window may reach into the tensor data, of which it looks at nothing.
      const end = Math.min(position + target.byteLength, bytes.length);
      if (position >= end) requireSize(position + target.byteLength, field);
      target.set(bytes.subarray(position, end));
    },
  };
  return readHeader(source, { decodedBytes: 0, nestedArrays: 0 }).metadata;
}
