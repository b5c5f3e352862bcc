// Hugging Face's cache on disk: `models--user--repo/{blobs,refs,snapshots}`, where a snapshot's files are links to blobs
// that are named after their entity tags. Shared with Python's tools and llama.cpp, so names and links are theirs.
// Source of the format: https://huggingface.co/docs/huggingface_hub/guides/manage-cache.

import { copyFile, link, lstat, mkdir, readdir, readFile, readlink, rename, rm, symlink } from "node:fs/promises";
import { randomBytes } from "node:crypto";
import { dirname, join, posix, relative, resolve, sep } from "node:path";
import { writeWholeFile } from "../whole-file.js";
import type { DownloadTarget } from "./download.js";
import { isSafePath } from "./safe-path.js";

const COMMIT = /^[0-9a-f]{40}$/;
const FOLDER_PREFIX = "models--";
const SEPARATOR = "--";
/** The end of a partial file's name. */
export const PARTIAL_SUFFIX = ".incomplete";
const MAX_DEPTH = 8;

/** The folder of one repository in the cache. */
export class RepositoryFolder {
  readonly path: string;

  constructor(cacheFolder: string, repository: string) {
    this.path = join(cacheFolder, `${FOLDER_PREFIX}${repository.replaceAll("/", SEPARATOR)}`);
  }

  get blobs(): string {
    return join(this.path, "blobs");
  }

  get snapshots(): string {
    return join(this.path, "snapshots");
  }

  /** Where the file with this entity tag goes. */
  blob(etag: string): DownloadTarget {
    const path = join(this.blobs, etag);
    return { path, partialPath: `${path}${PARTIAL_SUFFIX}` };
  }

  /** The path of a file in a snapshot. */
  file(commit: string, name: string): string {
    return join(this.snapshots, commit, ...name.split("/"));
  }

  /** The commit that a branch, tag or commit had when it was last asked for; undefined if it never was. */
  async commitOf(revision: string): Promise<string | undefined> {
    if (COMMIT.test(revision)) return revision;
    try {
      const text = (await readFile(join(this.path, "refs", ...revision.split("/")), "utf8")).trim();
      return COMMIT.test(text) ? text : undefined;
    } catch {
      return undefined;
    }
  }

  /** Remembers the commit of a branch or tag. */
  async writeReference(revision: string, commit: string): Promise<void> {
    if (COMMIT.test(revision) || (await this.commitOf(revision)) === commit) return;
    const path = join(this.path, "refs", ...revision.split("/"));
    await mkdir(dirname(path), { recursive: true });
    await writeWholeFile("hub", path, async (handle) => {
      await handle.writeFile(commit);
    });
  }

  /** Makes a blob visible under its name in a snapshot. */
  async addToSnapshot(commit: string, name: string, etag: string): Promise<string> {
    const path = this.file(commit, name);
    const blob = this.blob(etag).path;
    if (await isLinkTo(path, blob)) return path;
    await mkdir(dirname(path), { recursive: true });
    // Under another name first, because a link cannot replace a file.
    const temporary = `${path}.${randomBytes(6).toString("hex")}.tmp`;
    try {
      await symlink(relative(dirname(path), blob), temporary, "file");
    } catch {
      // Windows allows links to few users; a hard link is the same file, and a copy works everywhere.
      await link(blob, temporary).catch(() => copyFile(blob, temporary));
    }
    try {
      await rename(temporary, path);
    } catch (error) {
      await rm(temporary, { force: true });
      throw error;
    }
    return path;
  }

  /** The commits that have a snapshot. */
  async commits(): Promise<readonly string[]> {
    return (await folderNames(this.snapshots)).filter((name) => COMMIT.test(name));
  }

  /** The paths of all files of a snapshot, with forward slashes. */
  async filesOf(commit: string): Promise<readonly string[]> {
    return await filesBelow(join(this.snapshots, commit), "", MAX_DEPTH);
  }
}

/** The repositories in a cache, as `user/repo`. */
export async function repositoriesIn(cacheFolder: string): Promise<readonly string[]> {
  return (await folderNames(cacheFolder)).flatMap((name) => {
    const [user, repo, ...more] = name.startsWith(FOLDER_PREFIX)
      ? name.slice(FOLDER_PREFIX.length).split(SEPARATOR)
      : [];
    return user !== undefined && repo !== undefined && more.length === 0 ? [`${user}/${repo}`] : [];
  });
}

/** The names in a folder, sorted; none if it does not exist. */
export async function folderNames(folder: string): Promise<readonly string[]> {
  try {
    return (await readdir(folder)).toSorted();
  } catch {
    return [];
  }
}

/** Where a link leads, or the path itself if it is a file of its own. */
export async function blobOf(path: string): Promise<string> {
  try {
    return resolve(dirname(path), await readlink(path));
  } catch {
    return path;
  }
}

async function isLinkTo(path: string, blob: string): Promise<boolean> {
  return (await blobOf(path)) === resolve(blob);
}

async function filesBelow(folder: string, prefix: string, depth: number): Promise<readonly string[]> {
  const names = await folderNames(folder);
  const found = await Promise.all(
    names.filter(isSafePath).map(async (name) => {
      const path = posix.join(prefix, name);
      const stats = await lstat(join(folder, name)).catch(() => undefined);
      if (stats?.isDirectory() !== true) return stats === undefined ? [] : [path];
      return depth === 0 ? [] : await filesBelow(join(folder, name), path, depth - 1);
    }),
  );
  return found.flat();
}

/** Whether a path is inside a folder, both as they are written. */
export function isInside(folder: string, path: string): boolean {
  const inside = relative(folder, path);
  return inside !== "" && inside !== ".." && !inside.startsWith(`..${sep}`);
}
