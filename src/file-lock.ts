// A lock for one file among processes, also of several machines that share a folder. Every process that wants it writes
// a file with its own unique name beside the locked one, then looks for others: if there is none whose owner runs, it
// holds the lock; otherwise it removes its own and waits. Of two that write at the same time at least one sees the
// other, so never two hold it; a file whose owner has ended is ignored and removed by its unique name, so taking over a
// stale lock cannot remove a fresh one.

import { randomBytes } from "node:crypto";
import { mkdir, readdir, rm, stat, utimes, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { OWNER_NAME, ownerName, ownerState } from "./process-owner.js";

/** Owners on other machines cannot be asked; their locks are abandoned if they were not touched for this long. */
const ABANDONED_MS = 120_000;
const TOUCH_MS = 20_000;
const POLL_MS = 200;
/** How often in a row a folder's parent may be gone before the folder is made. */
const FOLDER_TRIES = 5;
const ANY_LOCK = new RegExp(String.raw`\.lock-(?<owner>${OWNER_NAME.source})-[0-9a-f]{12}$`);

/** How a lock is waited for. */
export interface LockOptions {
  readonly signal?: AbortSignal | undefined;
  /** Called while another process holds the lock, several times a second. */
  readonly onWait?: () => void;
}

/** The right to write a file; disposing it releases the lock. */
export class FileLock implements AsyncDisposable {
  readonly #path: string;
  readonly #touching: NodeJS.Timeout;

  private constructor(path: string) {
    this.#path = path;
    this.#touching = setInterval(() => void touch(path), TOUCH_MS).unref();
  }

  /** Waits until this process holds the lock of `target`; makes its folder if there is none. */
  static async acquire(target: string, { signal, onWait }: LockOptions = {}): Promise<FileLock> {
    let triesLeft = FOLDER_TRIES;
    for (;;) {
      signal?.throwIfAborted();
      // Each time: the process that held the lock removes the folder and its parent if they are empty.
      if (await isMade(dirname(target), --triesLeft > 0)) {
        triesLeft = FOLDER_TRIES;
        const lock = await FileLock.tryAcquire(target).catch(unlessFolderIsGone);
        if (lock !== undefined) return lock;
        onWait?.();
      }
      // Processes that collided must not collide again.
      await pause(POLL_MS * (0.5 + Math.random()));
    }
  }

  /** Takes the lock of `target`, whose folder exists, if no other process holds it. */
  static async tryAcquire(target: string): Promise<FileLock | undefined> {
    if (await isHeld(target, undefined)) return undefined;
    const own = `${target}.lock-${ownerName()}-${randomBytes(6).toString("hex")}`;
    await writeFile(own, "", { flag: "wx" });
    try {
      if (!(await isHeld(target, own))) return new FileLock(own);
    } catch (error) {
      await rm(own, { force: true });
      throw error;
    }
    await rm(own, { force: true });
    return undefined;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#touching);
    await rm(this.#path, { force: true });
  }
}

/** False if the folder's parent was removed meanwhile, and the caller will try again. */
async function isMade(folder: string, again: boolean): Promise<boolean> {
  try {
    await mkdir(folder, { recursive: true });
    return true;
  } catch (error) {
    if (!again) throw error;
    unlessFolderIsGone(error);
    return false;
  }
}

function unlessFolderIsGone(error: unknown): undefined {
  if (!(error instanceof Error && "code" in error && error.code === "ENOENT")) throw error;
}

/** Whether another than `own` holds the lock or tries to; removes what processes that have ended left behind. */
async function isHeld(target: string, own: string | undefined): Promise<boolean> {
  const folder = dirname(target);
  const pattern = lockNames(target);
  let held = false;
  for (const name of await readdir(folder)) {
    const owner = pattern.exec(name)?.groups?.["owner"];
    const path = join(folder, name);
    if (owner === undefined || path === own) continue;
    if (await isAbandoned(path, owner)) await rm(path, { force: true });
    else held = true;
  }
  return held;
}

/** Locks in a folder whose owners have ended; the next process that wants the locked file ignores them, too. */
export async function abandonedLocksIn(folder: string): Promise<readonly string[]> {
  const abandoned: string[] = [];
  for (const name of await readdir(folder)) {
    const owner = ANY_LOCK.exec(name)?.groups?.["owner"];
    const path = join(folder, name);
    if (owner !== undefined && (await isAbandoned(path, owner))) abandoned.push(path);
  }
  return abandoned;
}

/** Whether a lock that `abandonedLocksIn` has found is abandoned still: its owner may only have been suspended. */
export async function isAbandonedLock(path: string): Promise<boolean> {
  const owner = ANY_LOCK.exec(basename(path))?.groups?.["owner"];
  return owner !== undefined && (await isAbandoned(path, owner));
}

function lockNames(target: string): RegExp {
  const name = basename(target).replace(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`);
  return new RegExp(String.raw`^${name}\.lock-(?<owner>${OWNER_NAME.source})-[0-9a-f]{12}$`);
}

async function isAbandoned(path: string, owner: string): Promise<boolean> {
  const state = ownerState(owner);
  if (state !== "unknown") return state === "ended";
  try {
    return Date.now() - (await stat(path)).mtimeMs > ABANDONED_MS;
  } catch {
    // Its owner has released it meanwhile.
    return true;
  }
}

async function touch(path: string): Promise<void> {
  const now = new Date();
  // A lock that cannot be touched is at worst taken over by another machine.
  await utimes(path, now, now).catch(() => {});
}
