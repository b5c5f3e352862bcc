// Small kernels for tests of the driver and the compiler, in the dialect of kernels/portable.h, assembled as the real ones are.

import { copyFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { KERNEL_FOLDER } from "../../../src/backends/gpu/kernels/kernel-source.js";
import type { TemporaryFolder } from "../../support/temporary-folder.js";

export const SCALE_KERNEL = `#include "portable.h"

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

/** A folder of kernels with the package's headers in it. */
export function writeKernels(folder: TemporaryFolder, files: Readonly<Record<string, string>>): string {
  for (const header of readdirSync(KERNEL_FOLDER).filter((name) => name.startsWith("portable")))
    copyFileSync(join(KERNEL_FOLDER, header), folder.file(header));
  for (const [name, text] of Object.entries(files)) writeFileSync(folder.file(`${name}.hip`), text);
  return folder.path;
}
