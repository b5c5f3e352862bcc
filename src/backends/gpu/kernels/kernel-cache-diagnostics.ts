// What is in the kernel cache and what of it is of no use: entries that do not match their checksum, that were not used
// for a long time, or that a process died writing. Removing any of it costs a compilation at most.

import { readdirSync, type Stats, statSync } from "node:fs";
import { join } from "node:path";
import { kernelCacheFolder } from "../../cache-folder.js";
import { isIntactEntry, KERNEL_ENTRY, LEFTOVER_MS, UNFINISHED_ENTRY } from "./kernel-cache.js";

const DAY_MS = 86_400_000;
/** Entries of an older driver, card or version of this package are not used again. */
const UNUSED_DAYS = 90;

/** A file of the kernel cache that is of no use. */
interface UselessKernel {
  readonly path: string;
  readonly sizeBytes: number;
  readonly why: "damaged" | "unused" | "unfinished";
}

/** The contents of the kernel cache. */
export interface KernelFolderReport {
  readonly folder: string;
  /** Compiled kernels that are intact. */
  readonly kernels: number;
  /** All files of the folder together. */
  readonly sizeBytes: number;
  readonly useless: readonly UselessKernel[];
}

/** Looks at every file of the cache; an absent folder is an empty one. */
export function examineKernelFolder(folder: string = kernelCacheFolder(), now = Date.now()): KernelFolderReport {
  const useless: UselessKernel[] = [];
  let [kernels, sizeBytes] = [0, 0];
  for (const name of namesIn(folder)) {
    const path = join(folder, name);
    const stats = fileStats(path);
    if (stats === undefined) continue;
    sizeBytes += stats.size;
    const why = uselessness(name, path, now - stats.mtimeMs);
    if (why !== undefined) useless.push({ path, sizeBytes: stats.size, why });
    else if (KERNEL_ENTRY.test(name)) kernels++;
  }
  return { folder, kernels, sizeBytes, useless };
}

function uselessness(name: string, path: string, ageMs: number): UselessKernel["why"] | undefined {
  if (UNFINISHED_ENTRY.test(name)) return ageMs > LEFTOVER_MS ? "unfinished" : undefined;
  // Other files of the folder (known compilers, choices of the BLAS libraries) are checked by their readers.
  if (!KERNEL_ENTRY.test(name)) return undefined;
  if (!isIntactEntry(path)) return "damaged";
  return ageMs > UNUSED_DAYS * DAY_MS ? "unused" : undefined;
}

function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

/** Undefined for what is no plain file, or was removed meanwhile. */
function fileStats(path: string): Stats | undefined {
  const stats = statSync(path, { throwIfNoEntry: false });
  return stats?.isFile() === true ? stats : undefined;
}
