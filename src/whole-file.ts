// Writes a file whole or not at all: under a temporary name in the same folder, flushed to disk, then renamed. A
// process that is killed leaves its temporary file behind, so the name contains its process, and the next write to that
// folder removes files of processes that have ended. Invariants: only regular files of this pattern and the current
// user are removed, and only if their process has ended; a file's permissions are kept, links are followed.

import { randomBytes } from "node:crypto";
import { type FileHandle, lstat, open, opendir, realpath, rename, rm, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { FileError } from "./errors.js";
import { OWNER_NAME, ownerName, ownerState, type ProcessIdentity } from "./process-owner.js";
import { systemFailureText } from "./system-failure.js";

/**
 * `model.gguf.rocmforge-1a2b3c4d-4711-88213-0f1e2d3c4b5a.tmp`: machine, process, its start time, and a random number.
 */
const TEMPORARY = new RegExp(String.raw`\.rocmforge-(?<owner>${OWNER_NAME.source})-[0-9a-f]{12}\.tmp$`);
/**
 * The age at which a temporary file of another machine or container, whose processes cannot be checked, is abandoned:
 * no write takes this long.
 */
const ABANDONED_MS = 24 * 60 * 60_000;
/** How many entries of a folder are searched. */
const MOST_ENTRIES_SEEN = 10_000;
const PERMISSION_BITS = 0o777;
const DEFAULT_MODE = 0o666;

/**
 * Writes a file atomically. Messages begin with `place`; system errors are thrown unchanged, after the temporary file
 * has been removed.
 */
export async function writeWholeFile(
  place: string,
  path: string,
  write: (handle: FileHandle) => Promise<void>,
): Promise<void> {
  const { target, mode } = await replaceable(place, path);
  await removeAbandoned(dirname(target));
  const temporary = temporaryName(target);
  try {
    const handle = await open(temporary, "wx", mode ?? DEFAULT_MODE);
    try {
      // `open` applied the process's umask; a file system without permissions ignores this.
      if (mode !== undefined) await handle.chmod(mode).catch(() => {});
      await write(handle);
      // Otherwise a crash of the machine could leave the name without content.
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(temporary, target);
  } catch (error) {
    // The first failure is the one to report.
    await rm(temporary, { force: true }).catch(() => {});
    throw error;
  }
  await syncFolder(dirname(target));
}

/** Why a file could not be written, and what to do. */
export function whyNotWritten(error: unknown): string {
  return codeOf(error) === "ENOENT"
    ? "its folder does not exist (ENOENT); create it, or choose another folder"
    : systemFailureText(error);
}

/** The real path of the file and its permissions if it exists. Renaming would replace a device by a plain file. */
async function replaceable(place: string, path: string): Promise<{ readonly target: string; readonly mode?: number }> {
  try {
    const target = await realpath(path);
    const found = await stat(target);
    if (found.isFile()) return { target, mode: found.mode & PERMISSION_BITS };
  } catch (error) {
    if (codeOf(error) === "ENOENT") return { target: path };
    throw error;
  }
  const message = `[${place}] ${path}: expected a regular file or none, found something else; nothing was written`;
  throw new FileError("FILE_WRITE", message, { details: { path } });
}

/** The temporary name under which a process writes a file. */
export function temporaryName(target: string, owner?: ProcessIdentity): string {
  return `${target}.rocmforge-${ownerName(owner)}-${randomBytes(6).toString("hex")}.tmp`;
}

/** Removes the temporary files of processes that have ended; ignores a folder that cannot be searched. */
async function removeAbandoned(folder: string): Promise<void> {
  try {
    let seen = 0;
    for await (const { name } of await opendir(folder)) {
      if (++seen > MOST_ENTRIES_SEEN) return;
      if (TEMPORARY.test(name)) await removeIfAbandoned(join(folder, name));
    }
  } catch {
    // The write itself will report what is wrong with the folder.
  }
}

async function removeIfAbandoned(path: string): Promise<void> {
  try {
    const found = await lstat(path);
    const isOurs = found.isFile() && (process.getuid === undefined || found.uid === process.getuid());
    // The name is random, so no other process can have reused it since it was read.
    if (isOurs && (hasLostItsOwner(basename(path)) || Date.now() - found.mtimeMs > ABANDONED_MS))
      await rm(path, { force: true });
  } catch {
    // Another process may have removed it first.
  }
}

function hasLostItsOwner(name: string): boolean {
  const { owner = "" } = TEMPORARY.exec(name)?.groups ?? {};
  return ownerState(owner) === "ended";
}

/** Flushes the folder to make the rename durable; errors of file systems that cannot do that are ignored. */
async function syncFolder(folder: string): Promise<void> {
  try {
    const handle = await open(folder, "r");
    try {
      await handle.sync();
    } finally {
      await handle.close();
    }
  } catch {
    // The file is complete under either name.
  }
}

function codeOf(error: unknown): string | undefined {
  return error instanceof Error && "code" in error ? String(error.code) : undefined;
}
