// NVRTC, NVIDIA's run-time compiler: machine code for one architecture, from source without headers.

import { type CompilerFlavour, defineOptions, isCareful } from "../shared/compiler-flavour.js";
import { NativeCompiler } from "../shared/compiler.js";
import type { UnavailableDriver } from "../shared/driver-library.js";
import type { CudaDriver } from "./driver.js";
import { NVRTC_CALLS, NVRTC_LIBRARY_VARIABLE, nvrtcLibraries } from "./ffi.js";

/** Targets with architecture-specific instructions, which exist on this architecture and on no later one. */
const OWN_INSTRUCTIONS: Readonly<Record<string, string>> = { sm_90: "sm_90a" };

/** NVRTC's functions and command line for `NativeCompiler`. */
export const NVRTC: CompilerFlavour = {
  kind: "cuda",
  name: "NVRTC",
  prototypes: NVRTC_CALLS,
  options: (options) => [
    `--gpu-architecture=${OWN_INSTRUCTIONS[options.architecture] ?? options.architecture}`,
    "--std=c++17",
    "-default-device",
    ...(isCareful(options) ? ["--ptxas-options=-O1"] : []),
    ...defineOptions(options),
  ],
};

/** Finds the NVRTC that matches the driver's CUDA version, or returns why there is none. */
export function findCudaCompiler(driver: CudaDriver): NativeCompiler | UnavailableDriver {
  return NativeCompiler.find(NVRTC, {
    what: "NVRTC, CUDA's run-time compiler,",
    variable: NVRTC_LIBRARY_VARIABLE,
    names: nvrtcLibraries(driver.major),
    remedy: `install it (NVIDIA's packages: cuda-nvrtc-${driver.major}-0 or later; Debian: libnvrtc), or name the file in ${NVRTC_LIBRARY_VARIABLE}`,
    kind: "compile",
  });
}
