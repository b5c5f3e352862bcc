// The partial file of a download. It only grows at its end, so its size is the position at which a download resumes,
// even if the process was killed. A file that was written in one go is hashed on the way; one that was resumed is read
// again when it is complete, once, however often it was interrupted.

import type { Hash } from "node:crypto";
import { type FileHandle, open, rename, rm } from "node:fs/promises";
import { HubError } from "../errors.js";
import { systemFailureText } from "../system-failure.js";
import { type RemoteFile, startChecksum } from "./remote-file.js";

const READ_BYTES = 1024 * 1024;
const FULL_DISK = ["ENOSPC", "EDQUOT"];

/** An open partial file; disposing it closes it and keeps what it has. */
export class PartialFile implements AsyncDisposable {
  readonly path: string;
  readonly #handle: FileHandle;
  readonly #file: RemoteFile;
  #sizeBytes: number;
  /** Covers all bytes of the file; undefined if some were written by an earlier process. */
  #hash: Hash | undefined;

  private constructor(path: string, handle: FileHandle, file: RemoteFile, sizeBytes: number) {
    this.path = path;
    this.#handle = handle;
    this.#file = file;
    this.#sizeBytes = sizeBytes;
    if (sizeBytes === 0 && file.checksum !== undefined) this.#hash = startChecksum(file.checksum, file.sizeBytes);
  }

  /** Opens or creates a partial file; one that is longer than the file can be is emptied. */
  static async open(path: string, file: RemoteFile): Promise<PartialFile> {
    const handle = await open(path, "a+");
    try {
      let { size } = await handle.stat();
      if (size > file.sizeBytes) {
        await handle.truncate(0);
        size = 0;
      }
      return new PartialFile(path, handle, file, size);
    } catch (error) {
      await handle.close();
      throw error;
    }
  }

  get sizeBytes(): number {
    return this.#sizeBytes;
  }

  /** Appends bytes; never more than the file is long. */
  async append(bytes: Uint8Array): Promise<void> {
    if (this.#sizeBytes + bytes.byteLength > this.#file.sizeBytes)
      throw new RangeError(`${this.path} would become longer than ${this.#file.sizeBytes} bytes`);
    try {
      for (let done = 0; done < bytes.byteLength;) {
        const { bytesWritten } = await this.#handle.write(bytes, done, bytes.byteLength - done);
        this.#hash?.update(bytes.subarray(done, done + bytesWritten));
        this.#sizeBytes += bytesWritten;
        done += bytesWritten;
      }
    } catch (error) {
      throw isFullDisk(error) ? fullDisk(this.path, error) : error;
    }
  }

  /** Checks the complete file and gives it its final name; a file with a wrong checksum is removed. */
  async finish(place: string, target: string, onVerify: () => void, signal?: AbortSignal): Promise<void> {
    const { checksum, name } = this.#file;
    if (checksum !== undefined) {
      onVerify();
      const found = (this.#hash ?? (await this.#hashAgain(signal))).digest("hex");
      this.#hash = undefined;
      if (found !== checksum.hex) {
        await rm(this.path, { force: true });
        const message = `[hub] ${place}: ${name}: expected ${checksum.kind} ${checksum.hex}, found ${found}; it was removed, so try again`;
        throw new HubError("HUB_CHECKSUM", message, { details: { name, expected: checksum.hex, found } });
      }
    }
    // Otherwise a crash of the machine could leave the name without content.
    await this.#handle.sync();
    await rename(this.path, target);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#handle.close();
  }

  async #hashAgain(signal: AbortSignal | undefined): Promise<Hash> {
    const { checksum, sizeBytes } = this.#file;
    if (checksum === undefined) throw new TypeError("the file has no checksum");
    const hash = startChecksum(checksum, sizeBytes);
    const buffer = Buffer.allocUnsafe(READ_BYTES);
    for (let position = 0; position < sizeBytes;) {
      signal?.throwIfAborted();
      const { bytesRead } = await this.#handle.read(buffer, 0, buffer.byteLength, position);
      if (bytesRead === 0) throw new RangeError(`${this.path} has become shorter`);
      hash.update(buffer.subarray(0, bytesRead));
      position += bytesRead;
    }
    return hash;
  }
}

function isFullDisk(error: unknown): boolean {
  return error instanceof Error && "code" in error && FULL_DISK.includes(String(error.code));
}

function fullDisk(path: string, cause: unknown): HubError {
  return new HubError("HUB_DISK_SPACE", `[hub] ${path}: ${systemFailureText(cause)}; the download resumes afterwards`, {
    details: { path },
    cause,
  });
}
