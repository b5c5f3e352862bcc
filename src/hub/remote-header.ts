// Reads the header of a GGUF on a server by range requests, as much as its counts and strings need and no more. The
// bytes are kept, so that a download that follows does not fetch them again; those of an earlier partial download are
// read from disk.

import { open } from "node:fs/promises";
import { HubError } from "../errors.js";
import { type GgufHeader, readHeader } from "../gguf/header.js";
import type { HeaderSource } from "../gguf/header-cursor.js";
import { MAX_HEADER_BYTES } from "../gguf/limits.js";
import { sizeOf } from "./disk-space.js";
import type { HttpClient } from "./http-client.js";
import { RangeReader } from "./range-reader.js";
import type { RemoteFile } from "./remote-file.js";

/** Enough for the header of a later part; a vocabulary needs a few more requests. */
const FIRST_BYTES = 512 * 1024;
/** The header's reader fills a window of this size. */
const WINDOW_BYTES = 64 * 1024;
/** The header's reader refuses larger ones; it may look a window further. */
const LARGEST_BYTES = MAX_HEADER_BYTES + WINDOW_BYTES;

/** The first bytes of a file on a server: at least its header. */
export interface RemoteHeader {
  readonly file: RemoteFile;
  readonly bytes: Buffer;
}

class MoreBytesNeeded extends Error {
  readonly endBytes: number;

  constructor(endBytes: number) {
    super("the header continues");
    this.endBytes = endBytes;
  }
}

/** Fetches the header of a file; bytes that `partialPath` has are read from there. */
export async function fetchHeader(client: HttpClient, file: RemoteFile, partialPath: string): Promise<RemoteHeader> {
  const reader = new RangeReader(client, file);
  let bytes = await readPartial(partialPath, Math.min(FIRST_BYTES, file.sizeBytes), file);
  let wanted = Math.min(FIRST_BYTES, file.sizeBytes);
  for (;;) {
    if (bytes.length < wanted) {
      const onDisk = await readPartial(partialPath, wanted, file);
      bytes = onDisk.length > bytes.length ? onDisk : bytes;
      bytes = await extend(reader, bytes, wanted);
    }
    const neededBytes = tryParse(file, bytes);
    if (neededBytes === undefined) return { file, bytes };
    wanted = Math.min(file.sizeBytes, Math.max(neededBytes + WINDOW_BYTES, 2 * bytes.length), LARGEST_BYTES);
    if (neededBytes > LARGEST_BYTES)
      throw new HubError("HUB_RESPONSE", `[hub] ${client.place}: ${file.name}: its header does not end`);
  }
}

/** Parses a header from the first bytes of a file. */
export function headerSource({ file: { name, sizeBytes }, bytes }: RemoteHeader): HeaderSource {
  return {
    path: name,
    sizeBytes,
    readSync: (target, position) => {
      const end = position + target.byteLength;
      if (end > bytes.length) throw new MoreBytesNeeded(end);
      target.set(bytes.subarray(position, end));
    },
    // The size is what the server states; the download checks it.
    requireSize: () => {},
  };
}

/** How many bytes the header needs at least; undefined if these are enough. */
function tryParse(file: RemoteFile, bytes: Buffer): number | undefined {
  let header: GgufHeader;
  try {
    header = readHeader(headerSource({ file, bytes }), { decodedBytes: 0, nestedArrays: 0 });
  } catch (error) {
    if (error instanceof MoreBytesNeeded) return error.endBytes;
    throw error;
  }
  const end = Math.min(header.dataOffset, file.sizeBytes);
  return end > bytes.length ? end : undefined;
}

async function extend(reader: RangeReader, bytes: Buffer, wanted: number): Promise<Buffer> {
  const longer = Buffer.alloc(wanted);
  let filled = bytes.copy(longer);
  await reader.read({ start: filled, end: wanted }, async (chunk) => {
    longer.set(chunk, filled);
    filled += chunk.byteLength;
  });
  return longer;
}

async function readPartial(path: string, lengthBytes: number, { etag }: RemoteFile): Promise<Buffer> {
  const available = etag === undefined ? 0 : Math.min(lengthBytes, await sizeOf(path));
  if (available === 0) return Buffer.alloc(0);
  const handle = await open(path, "r");
  try {
    const buffer = Buffer.alloc(available);
    const { bytesRead } = await handle.read(buffer, 0, available, 0);
    return buffer.subarray(0, bytesRead);
  } finally {
    await handle.close();
  }
}
