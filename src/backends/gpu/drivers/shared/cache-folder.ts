// The folder of everything that is kept on disk between processes: compiled kernels, known compilers, BLAS algorithms.

import { homedir } from "node:os";
import { isAbsolute, join } from "node:path";

export const CACHE_VARIABLE = "ROCMFORGE_KERNEL_CACHE";

/** The folder that the environment names, else the user's cache. */
export function kernelCacheFolder(environment: NodeJS.ProcessEnv = process.env): string {
  const named = environment[CACHE_VARIABLE];
  if (named !== undefined && named !== "") return named;
  const caches = environment["XDG_CACHE_HOME"];
  // The specification has relative paths ignored.
  return join(caches !== undefined && isAbsolute(caches) ? caches : join(homedir(), ".cache"), "rocmforge", "kernels");
}
