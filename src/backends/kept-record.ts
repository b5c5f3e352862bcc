// What was learned about this machine, as a JSON file that several processes read and extend. Invariants: a file is read
// whole or not at all, never larger than a limit, and what its reader does not accept counts as absent; a write changes
// the newest contents under a lock and replaces the file in one rename. A folder that cannot be used costs time, never a
// failure.

import { randomBytes } from "node:crypto";
import { readFileSync, statSync } from "node:fs";
import { mkdir, rename, rm, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { FileLock } from "../file-lock.js";
import { parsedJson } from "../plain-object.js";

/** Far larger than any record; a larger file was not written by this code. */
const MAX_FILE_BYTES = 4 << 20;
/** How long a write waits for other processes, which hold the lock for milliseconds. */
const LOCK_WAIT_MS = 5000;

/** How the contents of a record are read and written. */
export interface RecordFormat<Contents> {
  /** The contents of a record that does not exist. */
  readonly empty: Contents;
  /** Checks what JSON contained; undefined if any of it makes no sense. */
  parse(value: unknown): Contents | undefined;
  /** Human-readable: what is not kept if the folder cannot be used, for the warning. */
  readonly what: string;
}

/** One JSON file of results that are kept from process to process. */
export class KeptRecord<Contents extends object> {
  readonly path: string;
  readonly #format: RecordFormat<Contents>;

  constructor(path: string, format: RecordFormat<Contents>) {
    this.path = path;
    this.#format = format;
  }

  /** What is in the file; the empty contents if it is absent, damaged or makes no sense. */
  read(): Contents {
    return this.#parsed() ?? this.#format.empty;
  }

  /** Replaces the contents by what `change` makes of the newest ones; false if they could not be written. */
  async update(change: (contents: Contents) => Contents): Promise<boolean> {
    // Writers of one process take turns without the lock, which is polled.
    const earlier = writing.get(this.path) ?? Promise.resolve();
    const own = earlier.then(() => this.#update(change));
    writing.set(this.path, own);
    try {
      return await own;
    } finally {
      if (writing.get(this.path) === own) writing.delete(this.path);
    }
  }

  async #update(change: (contents: Contents) => Contents): Promise<boolean> {
    const unfinished = `${this.path}.${randomBytes(6).toString("hex")}.tmp`;
    try {
      await mkdir(dirname(this.path), { recursive: true, mode: 0o700 });
      await using _ = await FileLock.acquire(this.path, { signal: AbortSignal.timeout(LOCK_WAIT_MS) });
      const text = `${JSON.stringify(change(this.read()))}\n`;
      if (Buffer.byteLength(text) > MAX_FILE_BYTES) return false;
      await writeFile(unfinished, text, { flag: "wx", mode: 0o600 });
      await rename(unfinished, this.path);
      return true;
    } catch (error) {
      await rm(unfinished, { force: true }).catch(() => {});
      warnOnce(this.path, this.#format.what, error);
      return false;
    }
  }

  #parsed(): Contents | undefined {
    try {
      const stats = statSync(this.path, { throwIfNoEntry: false });
      if (stats === undefined || !stats.isFile() || stats.size > MAX_FILE_BYTES) return undefined;
      const value = parsedJson(readFileSync(this.path, "utf8"));
      return value === undefined ? undefined : this.#format.parse(value);
    } catch {
      return undefined;
    }
  }
}

/** The last write of this process to each path; none of them rejects. */
const writing = new Map<string, Promise<unknown>>();

const warned = new Set<string>();

function warnOnce(path: string, what: string, error: unknown): void {
  if (warned.has(path)) return;
  warned.add(path);
  const reason = error instanceof Error ? error.message : String(error);
  process.emitWarning(`${what} cannot be kept in ${path}: ${reason}`, {
    type: "RocmForgeWarning",
    code: "ROCMFORGE_RECORD",
  });
}
