// The C double of the CUDA driver, built over a copy of the emulated HIP runtime that has these settings to itself. It is
// kept beside that copy: kernels compiled by it, too, are known again by its file.

import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, readFileSync, renameSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { selectEmulated } from "../emulated-hip.js";
import type { EmulatorSettings } from "../emulator/build.js";

const SOURCE = fileURLToPath(new URL("cuda-double.c", import.meta.url));

export interface DoubleSettings extends EmulatorSettings {
  /** As cuDriverGetVersion gives it: 11020 is 11.2. */
  readonly version?: number;
  /** Of the card's compute capability. */
  readonly major?: number;
  /** That making a context takes. */
  readonly contextMs?: number;
  /** The number that making a context fails with. */
  readonly contextFailure?: number;
}

export interface CudaDouble {
  readonly library: string;
  /** The runtime that does the work. */
  readonly emulator: string;
}

/** From here on the backend `cuda` is this one; the first asker for a name decides on its settings. */
export function selectDouble(
  name: string,
  { version, major, contextMs, contextFailure, ...settings }: DoubleSettings = {},
): CudaDouble {
  const emulator = selectEmulated(`cuda-${name}`, settings);
  const definitions = [
    `-DEMULATOR="${emulator}"`,
    ...(version === undefined ? [] : [`-DVERSION=${version}`]),
    ...(major === undefined ? [] : [`-DMAJOR=${major}`]),
    ...(contextMs === undefined ? [] : [`-DCONTEXT_MS=${contextMs}`]),
    ...(contextFailure === undefined ? [] : [`-DCONTEXT_FAILURE=${contextFailure}`]),
  ];
  const library = build(dirname(emulator), name, definitions);
  Object.assign(process.env, { ROCMFORGE_CUDA_LIBRARY: library, ROCMFORGE_NVRTC_LIBRARY: library });
  return { library, emulator };
}

function build(folder: string, name: string, definitions: readonly string[]): string {
  const hash = createHash("sha256").update(readFileSync(SOURCE)).update(definitions.join("\0")).digest("hex");
  const library = join(folder, `libcuda-${name}-${hash.slice(0, 16)}.so`);
  if (existsSync(library)) return library;
  const partial = `${library}.${process.pid}`;
  const { status, stderr } = spawnSync(
    "cc",
    ["-shared", "-fPIC", "-w", ...definitions, "-o", partial, SOURCE, "-ldl"],
    { encoding: "utf8" },
  );
  if (status !== 0) throw new Error(stderr);
  renameSync(partial, library);
  return library;
}
