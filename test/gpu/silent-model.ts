// A random model for tests over a driver that computes nothing, with no library of products and an empty cache of kernels
// for every test. To be called at the top of a test file.

import { afterAll, afterEach, beforeAll, beforeEach, vi } from "vitest";
import { TemporaryFolder } from "../support/temporary-folder.js";
import { writeModel } from "./random-models.js";

/** `prewarm`: whether kernels are compiled before a step wants them. */
export function useSilentModel(prewarm: "on" | "off"): { readonly folder: TemporaryFolder; readonly path: string } {
  const folder = new TemporaryFolder();
  const path = folder.file("model.gguf");
  let caches = 0;
  beforeAll(() => writeModel(path));
  afterAll(() => folder[Symbol.dispose]());
  beforeEach(() => {
    vi.stubEnv("ROCMFORGE_GPU_PREWARM", prewarm);
    vi.stubEnv("ROCMFORGE_GPU_BLAS", "off");
    vi.stubEnv("ROCMFORGE_GPU_TUNE", "off");
    vi.stubEnv("ROCMFORGE_KERNEL_CACHE", folder.file(`cache-${caches++}`));
  });
  afterEach(() => void vi.unstubAllEnvs());
  return { folder, path };
}
