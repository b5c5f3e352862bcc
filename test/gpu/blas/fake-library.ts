// A stand-in for hipBLASLt (fake-library.cpp), compiled for tests of steps that leave matmuls to a BLAS library.

import { execFileSync, spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { bindCalls, type NativeCall, openLibrary } from "../../../src/backends/gpu/drivers/shared/ffi.js";
import type { GpuDevice } from "../../../src/backends/gpu/drivers/shared/driver.js";

/** Environment variable that names the BLAS library of the backend `hip`. */
export const BLAS_LIBRARY_VARIABLE = "ROCMFORGE_HIPBLASLT_LIBRARY";
const SOURCE = fileURLToPath(new URL("./fake-library.cpp", import.meta.url));

/** The C++ compiler of this machine; undefined if there is none, and tests of the stand-in skip. */
export const fakeLibraryCompiler = ["g++", "clang++"].find((name) => spawnSync(name, ["--version"]).status === 0);

/** Compiles the stand-in to `path`, if there is a compiler. */
export function buildFakeLibrary(path: string): void {
  if (fakeLibraryCompiler === undefined) return;
  execFileSync(fakeLibraryCompiler, ["-std=c++17", "-O2", "-shared", "-fPIC", "-o", path, SOURCE]);
}

/** How many matmuls the stand-in at `path` was asked to choose an algorithm for, in this process. */
export function askedMatmuls(path: string): number {
  const opened = openLibrary([path]);
  if ("missing" in opened) throw new Error(opened.reason);
  const bound = bindCalls<{ readonly heuristics: NativeCall<[]> }>(opened, { heuristics: "int fakeHeuristics()" });
  if ("lacking" in bound) throw new Error(bound.lacking.join(", "));
  return bound.calls.heuristics();
}

/** Changes of a device for `watchDriver`: the stand-in computes when it is called, not in the stream's order. */
export function oneByOne(device: GpuDevice): Partial<Record<keyof GpuDevice, unknown>> {
  return {
    launch: (...args: Parameters<GpuDevice["launch"]>) => {
      device.launch(...args);
      device.synchronize();
    },
    // F16 weights go to it as they arrive.
    streamWait: (...args: Parameters<GpuDevice["streamWait"]>) => {
      device.streamWait(...args);
      device.synchronize();
    },
  };
}
