// hiprtc, AMD's run-time compiler: inside the HIP runtime up to 6.x, beside it from 6.x on.

import { dirname } from "node:path";
import { type CompilerFlavour, defineOptions } from "../shared/compiler-flavour.js";
import { NativeCompiler } from "../shared/compiler.js";
import type { UnavailableDriver } from "../shared/driver-library.js";
import { hasSymbol, libraryFile } from "../shared/ffi.js";
import { compilerParts } from "./compiler-parts.js";
import type { HipDriver } from "./driver.js";
import { HIPRTC_CALLS, HIPRTC_BLAS_VARIABLE, HIPRTC_SYMBOL } from "./ffi.js";
import { hiprtcLibraries } from "./libraries.js";
import { rocmFolders } from "./rocm-folders.js";

export const HIPRTC: CompilerFlavour = {
  kind: "hip",
  name: "hiprtc",
  prototypes: HIPRTC_CALLS,
  options: (options) => [`--gpu-architecture=${options.architecture}`, "-std=c++17", "-O3", ...defineOptions(options)],
};

export function findHipCompiler(driver: HipDriver): NativeCompiler | UnavailableDriver {
  const named = process.env[HIPRTC_BLAS_VARIABLE];
  const forced = named !== undefined && named !== "";
  const file = libraryFile(driver.loaded);
  const runtimeFolder = file === undefined ? undefined : dirname(file.path);
  // hiprtc's own version number has stood still for years: the runtime's tells its releases apart, and what it compiles
  // with may be replaced by itself.
  const folders = [
    ...(forced ? [dirname(named)] : []),
    ...(runtimeFolder === undefined ? [] : [runtimeFolder]),
    ...rocmFolders(),
  ];
  const release = `${driver.version} (${compilerParts(folders)})`;
  if (!forced && hasSymbol(driver.loaded, HIPRTC_SYMBOL)) return NativeCompiler.open(HIPRTC, driver.loaded, release);
  const wanted = {
    what: "hiprtc, HIP's run-time compiler,",
    variable: HIPRTC_BLAS_VARIABLE,
    names: hiprtcLibraries(runtimeFolder),
    remedy: `install it (AMD's packages: hip-runtime-amd), or name the file in ${HIPRTC_BLAS_VARIABLE}`,
    kind: "compile",
  } as const;
  return NativeCompiler.find(HIPRTC, wanted, release);
}
