// Downloads that will hardly be resumed, and locks of processes that have ended. Complete models have other names and
// are never among them; a partial file is removed under its lock, so that no process is downloading it.

import { lstat, rm } from "node:fs/promises";
import { join } from "node:path";
import { folderNames, PARTIAL_SUFFIX, repositoriesIn, RepositoryFolder } from "./cache-layout.js";
import { abandonedLocksIn, FileLock, isAbandonedLock } from "../file-lock.js";
import type { HubSettings } from "./hub-settings.js";

/** A partial download that was not written to for this long is stale. */
export const STALE_DOWNLOAD_DAYS = 7;
const DAY_MS = 86_400_000;

/** A file in a model cache that is of no use. */
export interface StaleDownload {
  readonly kind: "partial" | "lock";
  readonly path: string;
  readonly sizeBytes: number;
}

/** Finds partial downloads that were not written to for days, and locks of processes that have ended. */
export async function findStaleDownloads(settings: HubSettings, now = Date.now()): Promise<readonly StaleDownload[]> {
  const stale: StaleDownload[] = [];
  for (const folder of await downloadFolders(settings)) {
    const names = await folderNames(folder);
    // An unreadable or absent folder has no names, and no locks either.
    if (names.length === 0) continue;
    for (const path of await abandonedLocksIn(folder)) stale.push({ kind: "lock", path, sizeBytes: 0 });
    for (const name of names) {
      const path = join(folder, name);
      const sizeBytes = name.endsWith(PARTIAL_SUFFIX) ? await staleSize(path, now) : undefined;
      if (sizeBytes !== undefined) stale.push({ kind: "partial", path, sizeBytes });
    }
  }
  return stale;
}

/** Removes what `findStaleDownloads` has found; false if a process uses it again. */
export async function removeStaleDownload({ kind, path }: StaleDownload, now = Date.now()): Promise<boolean> {
  if (kind === "lock") {
    if (!(await isAbandonedLock(path))) return false;
    await rm(path, { force: true });
    return true;
  }
  await using lock = await FileLock.tryAcquire(path);
  if (lock === undefined || (await staleSize(path, now)) === undefined) return false;
  await rm(path, { force: true });
  return true;
}

/** The folders in which downloads grow. */
async function downloadFolders({ cacheFolder, urlFolder }: HubSettings): Promise<readonly string[]> {
  const repositories = await repositoriesIn(cacheFolder);
  const folders = repositories.map((repository) => new RepositoryFolder(cacheFolder, repository).blobs);
  for (const model of await folderNames(urlFolder))
    for (const version of await folderNames(join(urlFolder, model))) folders.push(join(urlFolder, model, version));
  return folders;
}

/** The size of a partial file that is stale; undefined if it is not, or is no plain file. */
async function staleSize(path: string, now: number): Promise<number | undefined> {
  try {
    const stats = await lstat(path);
    return stats.isFile() && now - stats.mtimeMs > STALE_DOWNLOAD_DAYS * DAY_MS ? stats.size : undefined;
  } catch {
    return undefined;
  }
}
