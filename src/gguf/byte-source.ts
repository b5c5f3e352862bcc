// One open file, read at given positions. Invariants: only regular files are opened, so a read never blocks on a pipe
// or a device; a short read is GGUF_TRUNCATED, never silent zeros; the descriptor is closed after the last read in
// flight, because the system may have given its number to another file by then.

import {
  close,
  closeSync,
  constants,
  type Dir,
  fstatSync,
  opendirSync,
  openSync,
  read,
  readSync,
  statSync,
  type Stats,
} from "node:fs";
import { FileError, GgufError, RocmForgeError } from "../errors.js";
import { Lifetime } from "../lifetime.js";
import { limitReached, systemFailureText } from "../system-failure.js";

/** The most that one system call reads, so that disposal or a shrunken file is noticed between two calls. */
const READ_CHUNK_BYTES = 64 * 1024 * 1024;
/** How many entries of a directory are listed if a directory was named instead of a file in it. */
const MOST_ENTRIES_SEEN = 4096;
const MOST_MODELS_NAMED = 3;

function causeCode(cause: unknown): string {
  return cause instanceof Error && "code" in cause ? String(cause.code) : String(cause);
}

function openFailure(path: string, cause: unknown): RocmForgeError {
  const options = { details: { path, reason: causeCode(cause) }, cause };
  if (options.details.reason === "ENOENT" || options.details.reason === "ENOTDIR") {
    const advice = /^~(?:[/\\]|$)/.test(path) ? "only a shell knows ~, so write the whole path" : "check the path";
    return new FileError("FILE_NOT_FOUND", `[gguf] ${path}: no such file; ${advice}`, options);
  }
  return (
    limitReached("gguf", cause) ??
    new FileError("FILE_UNREADABLE", `[gguf] ${path}: cannot be opened: ${systemFailureText(cause)}`, options)
  );
}

function requireRegular(path: string, stats: Stats): void {
  if (stats.isFile()) return;
  const found = stats.isDirectory() ? "a directory" : stats.isFIFO() ? "a pipe" : "a device or socket";
  const advice = stats.isDirectory() ? modelsIn(path) : "";
  throw new FileError("FILE_UNREADABLE", `[gguf] ${path}: expected a regular file, found ${found}${advice}`, {
    details: { path, expected: "a regular file", found },
  });
}

/** Suggests the first model files of a folder for an error message. */
function modelsIn(path: string): string {
  const models: string[] = [];
  let folder: Dir | undefined;
  try {
    folder = opendirSync(path);
    for (let seen = 0; seen < MOST_ENTRIES_SEEN && models.length < MOST_MODELS_NAMED; seen++) {
      const entry = folder.readSync();
      if (entry === null) break;
      if (entry.name.endsWith(".gguf")) models.push(entry.name);
    }
  } catch {
    return "; name a file in it";
  } finally {
    folder?.closeSync();
  }
  return models.length === 0
    ? " without a .gguf file in it"
    : `; name a file in it, such as ${models.toSorted().join(", ")}`;
}

/** What tells one state of a file from others: whether two openings of a path got the same contents. */
export interface FileIdentity {
  readonly device: number;
  readonly inode: number;
  readonly sizeBytes: number;
  /** The time of the last change of its contents. */
  readonly changedMs: number;
}

/** Whether two openings got the same file in the same state. */
export function isSameFile(one: FileIdentity, other: FileIdentity): boolean {
  return (
    one.device === other.device &&
    one.inode === other.inode &&
    one.sizeBytes === other.sizeBytes &&
    one.changedMs === other.changedMs
  );
}

/** One open file, read at given positions; dispose it to close the file. */
export class ByteSource implements Disposable {
  readonly path: string;
  /** The file's size when it was opened. */
  readonly sizeBytes: number;
  /** The file as it was when it was opened. */
  readonly identity: FileIdentity;
  readonly #descriptor: number;
  readonly #lifetime: Lifetime;
  #readsInFlight = 0;

  private constructor(path: string, descriptor: number, { dev, ino, size, mtimeMs }: Stats) {
    this.path = path;
    this.sizeBytes = size;
    this.identity = { device: dev, inode: ino, sizeBytes: size, changedMs: mtimeMs };
    this.#descriptor = descriptor;
    this.#lifetime = new Lifetime(`the file ${path}`);
  }

  static open(path: string): ByteSource {
    let descriptor: number | undefined;
    try {
      // Checked before opening, because opening a device can have side effects, and again after, because a name can be
      // replaced.
      requireRegular(path, statSync(path));
      descriptor = openSync(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
      const stats = fstatSync(descriptor);
      requireRegular(path, stats);
      return new ByteSource(path, descriptor, stats);
    } catch (error) {
      if (descriptor !== undefined) closeSync(descriptor);
      throw error instanceof RocmForgeError ? error : openFailure(path, error);
    }
  }

  get descriptor(): number {
    this.#lifetime.assertAlive();
    return this.#descriptor;
  }

  /** Fills `target` from `position`; the error of a short read names `field`. */
  readSync(target: Uint8Array, position: number, field: string): void {
    this.#lifetime.assertAlive();
    for (let done = 0; done < target.byteLength;) {
      let count: number;
      try {
        count = readSync(
          this.#descriptor,
          target,
          done,
          Math.min(target.byteLength - done, READ_CHUNK_BYTES),
          position + done,
        );
      } catch (error) {
        throw this.#readFailure(error, field);
      }
      if (count === 0) throw this.#short(field, position + target.byteLength);
      done += count;
    }
  }

  async read(target: Uint8Array, position: number, field: string): Promise<void> {
    for (let done = 0; done < target.byteLength;) {
      this.#lifetime.assertAlive();
      const length = Math.min(target.byteLength - done, READ_CHUNK_BYTES);
      const count = await this.#readOnce(target, done, length, position + done, field);
      if (count === 0) throw this.#short(field, position + target.byteLength);
      done += count;
    }
    this.#lifetime.assertAlive();
  }

  /** Throws GGUF_TRUNCATED if the file no longer reaches `endBytes`. */
  requireSize(endBytes: number, field: string): void {
    this.#lifetime.assertAlive();
    if (fstatSync(this.#descriptor).size < endBytes) throw this.#short(field, endBytes);
  }

  [Symbol.dispose](): void {
    if (this.#lifetime.end() && this.#readsInFlight === 0) closeSync(this.#descriptor);
  }

  #readOnce(target: Uint8Array, offset: number, length: number, position: number, field: string): Promise<number> {
    this.#readsInFlight++;
    return new Promise((resolve, reject) => {
      read(this.#descriptor, target, offset, length, position, (error, count) => {
        this.#readsInFlight--;
        if (this.#lifetime.disposed && this.#readsInFlight === 0) close(this.#descriptor);
        if (error === null) resolve(count);
        else reject(this.#readFailure(error, field));
      });
    });
  }

  #short(field: string, endBytes: number): GgufError {
    const { size: foundBytes } = fstatSync(this.#descriptor);
    const shrunk = foundBytes < this.sizeBytes ? `; it had ${this.sizeBytes} when it was opened` : "";
    return new GgufError(
      "GGUF_TRUNCATED",
      { field, expected: `a file of at least ${endBytes} bytes`, found: `one of ${foundBytes} bytes${shrunk}` },
      { details: { path: this.path } },
    );
  }

  #readFailure(cause: unknown, field: string): FileError {
    const code = causeCode(cause);
    return new FileError(
      "FILE_UNREADABLE",
      `[gguf] ${this.path}: reading ${field} failed: ${systemFailureText(cause)}`,
      {
        details: { path: this.path, field, reason: code },
        cause,
      },
    );
  }
}
