// Allows one build of a folder at a time, across processes: a lock is a file with the id of the process that builds.
// Invariant: needs nothing but Node, since it also runs where the package is installed.

import { linkSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { isRunning } from "./tool.mjs";

const POLL_MS = 250;

/**
 * Waits for another build to end; a lock whose process is gone is taken over, a live one never.
 * @param {string} path of the lock, in a folder that is there
 * @param {{ limitMs: number }} options longer than any build takes; past it the wait ends with EBUSY
 */
export async function withBuildLock(path, { limitMs }, work) {
  const start = performance.now();
  while (!take(path)) {
    const holder = readIfThere(path);
    if (!isHeld(holder)) {
      if (holder !== undefined) breakLock(path, holder);
      continue;
    }
    // The process id of a killed build may belong to another program by now, which only the user can know.
    if (performance.now() - start > limitMs)
      throw Object.assign(new Error(`${path} is held by process ${holder}`), { code: "EBUSY" });
    await new Promise((resolve) => {
      setTimeout(resolve, POLL_MS);
    });
  }
  try {
    return await work();
  } finally {
    if (readIfThere(path) === String(process.pid)) rmSync(path, { force: true });
  }
}

/** Another build may remove the file at any time. */
export function readIfThere(path) {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    if (error.code !== "ENOENT") throw error;
    return undefined;
  }
}

/** Links a file that already contains our id, so that a lock is never read without one. */
function take(path) {
  const own = `${path}.${process.pid}`;
  try {
    writeFileSync(own, String(process.pid));
    linkSync(own, path);
    return true;
  } catch (error) {
    if (error.code !== "EEXIST") throw error;
    return false;
  } finally {
    rmSync(own, { force: true });
  }
}

/** This process holds no lock here: a lock with our own id is from an earlier process with the same id. */
function isHeld(holder) {
  const pid = Number(holder);
  return Number.isInteger(pid) && pid > 0 && pid !== process.pid && isRunning(pid);
}

/** Removes the lock of a process that has ended, and restores it if another process has taken it meanwhile. */
function breakLock(path, holder) {
  const aside = `${path}.${process.pid}`;
  try {
    renameSync(path, aside);
    if (readIfThere(aside) !== holder) linkSync(aside, path);
  } catch (error) {
    if (error.code !== "ENOENT" && error.code !== "EEXIST") throw error;
  } finally {
    rmSync(aside, { force: true });
  }
}
