// Small kernels for tests of the driver and the compiler, written for kernels/device/portable.h and assembled in the same
// way as the package's kernels.

import { cpSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { KERNEL_FOLDER } from "../../../src/backends/gpu/kernels/kernel-source.js";
import type { TemporaryFolder } from "../../support/temporary-folder.js";

export const SCALE_KERNEL = `#include "device/portable.h"

struct ScaleArguments {
  const float* input;
  float* out;
  int count;
  float factor;
};

KERNEL(scale, ScaleArguments, 64) {
  dependency_release();
  dependency_wait();
  const int index = block_x() * 64 + thread_index();
  if (index < a.count) a.out[index] = a.input[index] * a.factor;
}
`;

/** Writes kernel files into `folder`, beside the package's device headers; returns the folder's path. */
export function writeKernels(folder: TemporaryFolder, files: Readonly<Record<string, string>>): string {
  cpSync(join(KERNEL_FOLDER, "device"), folder.file("device"), { recursive: true });
  for (const [name, text] of Object.entries(files)) writeFileSync(folder.file(`${name}.hip`), text);
  return folder.path;
}
