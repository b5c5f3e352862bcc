// Downloads one file: resumed, checked. Requests are bounded ranges, so an interruption costs at most what one range had
// in flight, and bytes on disk are never fetched again. The caller holds the file's lock.

import { rm, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { requireDiskSpace } from "./disk-space.js";
import type { HttpClient } from "./http-client.js";
import { PartialFile } from "./partial-file.js";
import { RangeReader } from "./range-reader.js";
import type { RemoteFile } from "./remote-file.js";

/** The ranges of a download, which grow while they take less than a second: a round trip has to be worth it. */
const FIRST_CHUNK_BYTES = 8 * 1024 * 1024;
const MAX_CHUNK_BYTES = 64 * 1024 * 1024;
const SHORT_MS = 1000;

/** Where a file goes. */
export interface DownloadTarget {
  readonly path: string;
  readonly partialPath: string;
}

/** What a download reports. */
export interface DownloadObserver {
  /** Called with the file's bytes on disk, and how many of them have just arrived. */
  onBytes(doneBytes: number, arrivedBytes: number): void;
  /** Called when the file is complete and its checksum is compared. */
  onVerify(): void;
}

/** How a file is downloaded. */
export interface DownloadOptions {
  readonly observer: DownloadObserver;
  /** The first bytes of the file, if they are already known. */
  readonly prefix?: Uint8Array;
  /** The largest range that one request asks for. */
  readonly chunkBytes?: number;
}

/** Downloads a file unless it is there; its folder exists. */
export async function downloadFile(
  client: HttpClient,
  file: RemoteFile,
  target: DownloadTarget,
  { observer, prefix, chunkBytes }: DownloadOptions,
): Promise<void> {
  const { signal, place } = client;
  if (await isComplete(target, file)) return;
  await using partial = await openPartial(target, file);
  await requireDiskSpace(place, dirname(target.path), file.sizeBytes - partial.sizeBytes);
  observer.onBytes(partial.sizeBytes, 0);
  if (prefix !== undefined && prefix.byteLength > partial.sizeBytes) {
    await partial.append(prefix.subarray(partial.sizeBytes, file.sizeBytes));
    observer.onBytes(partial.sizeBytes, 0);
  }
  await fetchRest(new RangeReader(client, file), file, partial, observer, chunkBytes);
  await partial.finish(place, target.path, () => observer.onVerify(), signal);
}

/** Whether the file is there; one of another length is removed. */
async function isComplete({ path }: DownloadTarget, { sizeBytes }: RemoteFile): Promise<boolean> {
  try {
    if ((await stat(path)).size === sizeBytes) return true;
  } catch {
    return false;
  }
  await rm(path, { force: true });
  return false;
}

/** Without an identity nothing tells whether an old partial file belongs to the file of today. */
async function openPartial({ partialPath }: DownloadTarget, file: RemoteFile): Promise<PartialFile> {
  if (file.etag === undefined && file.checksum === undefined) await rm(partialPath, { force: true });
  return await PartialFile.open(partialPath, file);
}

async function fetchRest(
  reader: RangeReader,
  { sizeBytes }: RemoteFile,
  partial: PartialFile,
  observer: DownloadObserver,
  largest = MAX_CHUNK_BYTES,
): Promise<void> {
  let chunkBytes = Math.min(largest, FIRST_CHUNK_BYTES);
  while (partial.sizeBytes < sizeBytes) {
    const startMs = performance.now();
    const start = partial.sizeBytes;
    await reader.read({ start, end: Math.min(start + chunkBytes, sizeBytes), wholeEnd: sizeBytes }, async (bytes) => {
      await partial.append(bytes);
      observer.onBytes(partial.sizeBytes, bytes.byteLength);
    });
    if (performance.now() - startMs < SHORT_MS) chunkBytes = Math.min(largest, 2 * chunkBytes);
  }
}
