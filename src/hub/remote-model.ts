// A model on a server: its files, where each goes, and what is left to do when all are there. The hub and other
// addresses each make one; pulling and previewing need not know which.

import { dirname } from "node:path";
import { requireDiskSpace, sizeOf } from "./disk-space.js";
import type { DownloadTarget } from "./download.js";
import type { HttpClient } from "./http-client.js";
import type { RemoteFile } from "./remote-file.js";

/** A file of a model with its place on disk. */
export interface RemoteModelFile {
  readonly file: RemoteFile;
  readonly target: DownloadTarget;
}

/** A model on a server. */
export interface RemoteModel {
  /** The model's name without ambiguity, for messages and for pulling it again. */
  readonly name: string;
  readonly client: HttpClient;
  /** The files of the model, parts in order. */
  readonly files: readonly RemoteModelFile[];
  /** Called when a download begins, under the locks; notes what an interrupted one belongs to if its files do not tell. */
  begin?(): Promise<void>;
  /** Called when every file is complete; returns the path of the first. */
  finish(): Promise<string>;
}

/** The size of all files together. */
export function totalBytes({ files }: RemoteModel): number {
  return files.reduce((total, { file }) => total + file.sizeBytes, 0);
}

/** The bytes that are on disk already, complete or partial. */
export async function presentBytes({ files }: RemoteModel): Promise<number> {
  const sizes = await Promise.all(files.map(presentBytesOf));
  return sizes.reduce((total, size) => total + size, 0);
}

/** Throws HUB_DISK_SPACE unless everything that is missing fits on the disk. */
export async function requireRoom(model: RemoteModel): Promise<void> {
  const [first] = model.files;
  await requireDiskSpace(model.name, dirname(first.target.path), totalBytes(model) - (await presentBytes(model)));
}

/** The bytes of one file that are on disk already. */
export async function presentBytesOf({ file, target }: RemoteModelFile): Promise<number> {
  const [whole, partial] = await Promise.all([sizeOf(target.path), sizeOf(target.partialPath)]);
  if (whole === file.sizeBytes) return whole;
  return partial <= file.sizeBytes ? partial : 0;
}
