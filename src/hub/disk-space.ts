// The room on the disk of a folder, and whether it suffices for a download before that starts.

import { stat, statfs } from "node:fs/promises";
import { HubError } from "../errors.js";

const BYTES_PER_GB = 1e9;

/** Throws HUB_DISK_SPACE unless the folder's disk has room for this many bytes. */
export async function requireDiskSpace(place: string, folder: string, neededBytes: number): Promise<void> {
  const availableBytes = await freeBytes(folder);
  if (availableBytes === undefined || neededBytes <= availableBytes) return;
  const text = (bytes: number): string => `${(bytes / BYTES_PER_GB).toFixed(2)} GB`;
  const message = `[hub] ${place}: ${text(neededBytes)} are needed in ${folder} and ${text(availableBytes)} are free; remove models with \`rocmforge rm\`, or name another folder with HF_HUB_CACHE`;
  throw new HubError("HUB_DISK_SPACE", message, { details: { folder, neededBytes, availableBytes } });
}

/** The size of a file, 0 if there is none. */
export async function sizeOf(path: string): Promise<number> {
  try {
    return (await stat(path)).size;
  } catch {
    return 0;
  }
}

/** Bytes that may be written to the folder's disk; undefined if the file system does not tell, or there is no folder. */
export async function freeBytes(folder: string): Promise<number | undefined> {
  try {
    const { bavail, bsize } = await statfs(folder);
    return bavail * bsize;
  } catch {
    // Some network file systems do not tell; a full disk is reported when it is met.
    return undefined;
  }
}
