// Writes a file whole or not at all: under a temporary name beside its place, flushed to the disk, then renamed. A process
// that is killed leaves its temporary file behind, so the name says whose it is, and whoever writes to that folder next
// removes what has lost its owner. Invariants: nothing is removed but regular files of our own pattern and our own user,
// and only if the process that made them is gone; a file's permissions stay as they were, links are followed.

import { createHash, randomBytes } from "node:crypto";
import { readFileSync, readlinkSync } from "node:fs";
import { type FileHandle, lstat, open, opendir, realpath, rename, rm, stat } from "node:fs/promises";
import { hostname } from "node:os";
import { basename, dirname, join } from "node:path";
import { FileError } from "./errors.js";
import { systemFailureText } from "./system-failure.js";

/** `model.gguf.rocmforge-1a2b3c4d-4711-88213-0f1e2d3c4b5a.tmp`: machine, process, its start, and a random number. */
const TEMPORARY = /\.rocmforge-(?<machine>[0-9a-f]{8})-(?<pid>\d{1,10})-(?<start>\d{1,20})-[0-9a-f]{12}\.tmp$/;
/** Of another machine or container, whose processes cannot be asked: nothing writes this long without a write. */
const ABANDONED_MS = 24 * 60 * 60_000;
/** A folder with more is not searched to its end. */
const MOST_ENTRIES_SEEN = 10_000;
const PERMISSION_BITS = 0o777;
const DEFAULT_MODE = 0o666;

/** `place` is what messages begin with; failures of the system come out as they are, after the temporary file is gone. */
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
      // `open` took the process's mask off; a file system without permissions keeps that.
      if (mode !== undefined) await handle.chmod(mode).catch(() => {});
      await write(handle);
      // Otherwise a crash of the machine could leave the name with nothing behind it.
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(temporary, target);
  } catch (error) {
    // The failure that brought us here is the one to report.
    await rm(temporary, { force: true }).catch(() => {});
    throw error;
  }
  await syncFolder(dirname(target));
}

/** What stopped a file from being written, and what to do. */
export function whyNotWritten(error: unknown): string {
  return codeOf(error) === "ENOENT"
    ? "its folder does not exist (ENOENT); make it, or choose another place"
    : systemFailureText(error);
}

/** Where the file really is, and its permissions if there is one. Renaming would replace a device by a plain file. */
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

export function temporaryName(
  target: string,
  owner = { pid: process.pid, start: startOf(process.pid) ?? "0" },
): string {
  return `${target}.rocmforge-${machineId()}-${owner.pid}-${owner.start}-${randomBytes(6).toString("hex")}.tmp`;
}

/** Removes the temporary files of processes that are gone. A folder that cannot be searched keeps what it has. */
async function removeAbandoned(folder: string): Promise<void> {
  try {
    let seen = 0;
    for await (const { name } of await opendir(folder)) {
      if (++seen > MOST_ENTRIES_SEEN) return;
      if (TEMPORARY.test(name)) await removeIfAbandoned(join(folder, name));
    }
  } catch {
    // Writing will tell what is wrong with it.
  }
}

async function removeIfAbandoned(path: string): Promise<void> {
  try {
    const found = await lstat(path);
    const isOurs = found.isFile() && (process.getuid === undefined || found.uid === process.getuid());
    // The name is random, so nobody can have taken it anew since it was read.
    if (isOurs && (hasLostItsOwner(basename(path)) || Date.now() - found.mtimeMs > ABANDONED_MS))
      await rm(path, { force: true });
  } catch {
    // Another process may have removed it first.
  }
}

function hasLostItsOwner(name: string): boolean {
  const { machine, pid, start } = TEMPORARY.exec(name)?.groups ?? {};
  if (machine !== machineId() || pid === undefined) return false;
  const current = startOf(Number(pid));
  // Numbers are given again: a process that started at another time is another process.
  if (current !== undefined) return current !== start;
  return !isRunning(Number(pid));
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return codeOf(error) !== "ESRCH";
  }
}

/** When a process started, in the kernel's ticks; undefined if it does not run, or on systems other than Linux. */
function startOf(pid: number): string | undefined {
  try {
    // The second field is a name in parentheses, which may contain anything; the start is the twenty-second.
    const fields = readFileSync(`/proc/${pid}/stat`, "latin1");
    return fields.slice(fields.lastIndexOf(")") + 2).split(" ")[19];
  } catch {
    return undefined;
  }
}

let knownMachine: string | undefined;

/** The host and, in containers, the space of process numbers: elsewhere the same number is another process. */
function machineId(): string {
  return (knownMachine ??= createHash("sha256").update(`${hostname()} ${processSpace()}`).digest("hex").slice(0, 8));
}

function processSpace(): string {
  try {
    return readlinkSync("/proc/self/ns/pid");
  } catch {
    return "";
  }
}

/** The rename itself lasts once its folder is flushed; file systems that cannot do that need not. */
async function syncFolder(folder: string): Promise<void> {
  try {
    const handle = await open(folder, "r");
    try {
      await handle.sync();
    } finally {
      await handle.close();
    }
  } catch {
    // The file is whole whichever of the two names it has.
  }
}

function codeOf(error: unknown): string | undefined {
  return error instanceof Error && "code" in error ? String(error.code) : undefined;
}
