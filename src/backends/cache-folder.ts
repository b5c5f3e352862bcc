// The folder for everything that is cached on disk between processes: compiled kernels, known compilers, BLAS
// algorithms.

import { homedir } from "node:os";
import { isAbsolute, join } from "node:path";

/** Environment variable that names the cache folder. */
export const CACHE_VARIABLE = "ROCMFORGE_KERNEL_CACHE";

/** The folder named by the environment, otherwise one in the user's cache folder. */
export function kernelCacheFolder(environment: NodeJS.ProcessEnv = process.env): string {
  const named = environment[CACHE_VARIABLE];
  if (named !== undefined && named !== "") return named;
  const caches = environment["XDG_CACHE_HOME"];
  // The XDG specification says to ignore relative paths.
  return join(caches !== undefined && isAbsolute(caches) ? caches : join(homedir(), ".cache"), "rocmforge", "kernels");
}
