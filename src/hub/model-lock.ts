// The locks of all files of a model, from before its header is read until its last file is complete, so that several
// processes fetch every byte once. All processes take them in the same order, so that none waits for another in a
// circle. A model that is refused leaves no empty folders behind.

import { rmdir } from "node:fs/promises";
import { dirname } from "node:path";
import { FileLock } from "../file-lock.js";
import type { RemoteModelFile, RemoteModel } from "./remote-model.js";

/** The right to download a model; disposing it releases the locks. */
export class ModelLock implements AsyncDisposable {
  readonly #locks: readonly FileLock[];
  readonly #folders: readonly string[];

  private constructor(locks: readonly FileLock[], folders: readonly string[]) {
    this.#locks = locks;
    this.#folders = folders;
  }

  /** Waits until no other process downloads a file of the model; `onWait` is called with the file meanwhile. */
  static async acquire(model: RemoteModel, onWait: (file: RemoteModelFile) => void): Promise<ModelLock> {
    const { signal } = model.client;
    const files = new Map(model.files.map((file) => [file.target.partialPath, file]));
    const folders = [...new Set([...files.keys()].map((path) => dirname(path)))];
    const locks: FileLock[] = [];
    try {
      // A file that is in the model twice has one lock.
      for (const [path, file] of [...files].toSorted(([one], [other]) => (one < other ? -1 : 1)))
        locks.push(await FileLock.acquire(path, { signal, onWait: () => onWait(file) }));
    } catch (error) {
      await new ModelLock(locks, folders)[Symbol.asyncDispose]();
      throw error;
    }
    return new ModelLock(locks, folders);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const lock of this.#locks) await lock[Symbol.asyncDispose]();
    for (const folder of this.#folders) {
      // They fail, as they should, if anything is in the folders.
      await rmdir(folder).catch(() => {});
      await rmdir(dirname(folder)).catch(() => {});
    }
  }
}
