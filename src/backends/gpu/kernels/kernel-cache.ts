// Compiled kernels on disk, so that a second start compiles nothing. An entry is a file named by what it was made from:
//   0 "RFKERN01" | 8 SHA-256 of the code, 32 bytes | 40 zeros | 64 the code
// Written to a temporary file and renamed, so readers see all of it or nothing; an entry that does not match its checksum
// is ignored. A folder that cannot be used costs time, never a failure.

import { createHash, randomBytes } from "node:crypto";
import { readFileSync, statSync } from "node:fs";
import { mkdir, readdir, rename, rm, stat, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { CACHE_VARIABLE, kernelCacheFolder } from "../../cache-folder.js";

const MAGIC = "RFKERN01";
const HEADER_BYTES = 64;
const CHECKSUM_OFFSET = 8;
const CHECKSUM_BYTES = 32;
/** Far larger than any kernel. */
const MAX_ENTRY_BYTES = 64 * 2 ** 20;
/** Room for the kernels of a few hundred cards. */
const MAX_FOLDER_BYTES = 256 * 2 ** 20;
/** Share to which a full folder is trimmed, so that the next writes need no trimming. */
const TRIMMED_SHARE = 0.75;
const WRITES_BETWEEN_TRIMS = 64;
const DAY_MS = 86_400_000;
/** Age from which a temporary file must belong to a process that died while writing it. */
export const LEFTOVER_MS = 3_600_000;
/** The file names of entries. */
export const KERNEL_ENTRY = /^[0-9a-f]{64}\.kernel$/;
/** The file names of entries that are being written. */
export const UNFINISHED_ENTRY = /^(?:[0-9a-f]{64}\.kernel|[\w-]+\.json)\.[0-9a-f]+\.tmp$/;

interface KernelCacheLimits {
  readonly maxFolderBytes?: number;
}

/** Compiled kernels on disk, trimmed by last use. */
export class KernelCache {
  readonly folder: string;
  readonly #maxFolderBytes: number;
  #writes = 0;

  constructor(folder: string = kernelCacheFolder(), { maxFolderBytes = MAX_FOLDER_BYTES }: KernelCacheLimits = {}) {
    this.folder = folder;
    this.#maxFolderBytes = maxFolderBytes;
  }

  /**
   * The code stored under a key; undefined if there is no intact entry. Reads synchronously: a start reads dozens of
   * small files, and handing each to another thread takes several times as long.
   */
  async read(key: string): Promise<Uint8Array | undefined> {
    const path = this.#path(key);
    try {
      const { size, mtimeMs } = statSync(path);
      if (size <= HEADER_BYTES || size > MAX_ENTRY_BYTES) return undefined;
      const code = checkedCode(readFileSync(path));
      // The modification time records the last use, for trimming.
      if (code !== undefined && Date.now() - mtimeMs > DAY_MS)
        await utimes(path, new Date(), new Date()).catch(() => {});
      return code;
    } catch {
      return undefined;
    }
  }

  async write(key: string, code: Uint8Array): Promise<void> {
    if (code.byteLength + HEADER_BYTES > MAX_ENTRY_BYTES) return;
    const path = this.#path(key);
    const unfinished = `${path}.${randomBytes(6).toString("hex")}.tmp`;
    try {
      await mkdir(this.folder, { recursive: true, mode: 0o700 });
      await writeFile(unfinished, entryOf(code), { flag: "wx", mode: 0o600 });
      await rename(unfinished, path);
      if (this.#writes++ % WRITES_BETWEEN_TRIMS === 0) await this.#trim();
    } catch (error) {
      await rm(unfinished, { force: true }).catch(() => {});
      warnOnce(this.folder, error);
    }
  }

  /** Deletes the least recently used entries until the folder is well within its limit. */
  async #trim(): Promise<void> {
    const entries: { readonly path: string; readonly sizeBytes: number; readonly usedMs: number }[] = [];
    for (const name of await readdir(this.folder)) {
      const path = join(this.folder, name);
      const found = await stat(path).catch(() => undefined);
      if (found === undefined || !found.isFile()) continue;
      if (UNFINISHED_ENTRY.test(name) && Date.now() - found.mtimeMs > LEFTOVER_MS) await rm(path, { force: true });
      if (KERNEL_ENTRY.test(name)) entries.push({ path, sizeBytes: found.size, usedMs: found.mtimeMs });
    }
    let total = entries.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
    if (total <= this.#maxFolderBytes) return;
    for (const { path, sizeBytes } of entries.sort((left, right) => left.usedMs - right.usedMs)) {
      if (total <= this.#maxFolderBytes * TRIMMED_SHARE) return;
      await rm(path, { force: true });
      total -= sizeBytes;
    }
  }

  #path(key: string): string {
    return join(this.folder, `${key}.kernel`);
  }
}

function checksum(code: Uint8Array): Buffer {
  return createHash("sha256").update(code).digest();
}

function entryOf(code: Uint8Array): Buffer {
  const header = Buffer.alloc(HEADER_BYTES);
  header.write(MAGIC, "latin1");
  checksum(code).copy(header, CHECKSUM_OFFSET);
  return Buffer.concat([header, code]);
}

/** Whether a file is a complete entry that matches its checksum. */
export function isIntactEntry(path: string): boolean {
  try {
    const { size } = statSync(path);
    return size > HEADER_BYTES && size <= MAX_ENTRY_BYTES && checkedCode(readFileSync(path)) !== undefined;
  } catch {
    return false;
  }
}

function checkedCode(entry: Buffer): Uint8Array | undefined {
  if (entry.length <= HEADER_BYTES || entry.toString("latin1", 0, MAGIC.length) !== MAGIC) return undefined;
  const code = entry.subarray(HEADER_BYTES);
  return checksum(code).equals(entry.subarray(CHECKSUM_OFFSET, CHECKSUM_OFFSET + CHECKSUM_BYTES)) ? code : undefined;
}

const warned = new Set<string>();

function warnOnce(folder: string, error: unknown): void {
  if (warned.has(folder)) return;
  warned.add(folder);
  const reason = error instanceof Error ? error.message : String(error);
  process.emitWarning(
    `compiled kernels cannot be stored in ${folder} (${reason}), so every start compiles them again; set ${CACHE_VARIABLE} to another folder`,
    {
      type: "RocmForgeWarning",
      code: "ROCMFORGE_KERNEL_CACHE",
    },
  );
}
