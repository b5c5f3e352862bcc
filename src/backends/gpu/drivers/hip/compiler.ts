// hiprtc, AMD's run-time compiler: part of the HIP runtime in older releases, a separate library from 6.x on.

import { dirname } from "node:path";
import { type CompilerFlavour, defineOptions, isCareful } from "../shared/compiler-flavour.js";
import { NativeCompiler } from "../shared/compiler.js";
import type { UnavailableDriver } from "../shared/driver-library.js";
import { hasSymbol, libraryFile } from "../shared/ffi.js";
import { compilerParts } from "./compiler-parts.js";
import type { HipDriver } from "./driver.js";
import { HIPRTC_CALLS, HIPRTC_LIBRARY_VARIABLE, HIPRTC_SYMBOL } from "./ffi.js";
import { hipFolders, hiprtcLibraries } from "./libraries.js";

/** hiprtc's functions and command line for `NativeCompiler`. */
export const HIPRTC: CompilerFlavour = {
  kind: "hip",
  name: "hiprtc",
  prototypes: HIPRTC_CALLS,
  options: (options) => [
    `--gpu-architecture=${options.architecture}`,
    "-std=c++17",
    isCareful(options) ? "-O1" : "-O3",
    ...defineOptions(options),
  ],
};

/** Finds hiprtc inside the HIP runtime or beside it, or returns why there is none. */
export function findHipCompiler(driver: HipDriver): NativeCompiler | UnavailableDriver {
  const named = process.env[HIPRTC_LIBRARY_VARIABLE];
  const forced = named !== undefined && named !== "";
  const file = libraryFile(driver.loaded);
  const runtimeFolder = file === undefined ? undefined : dirname(file.path);
  // hiprtc's own version number has not changed for years: the runtime's version distinguishes its releases, and the
  // components that it compiles with can be replaced separately.
  const folders = [
    ...(forced ? [dirname(named)] : []),
    ...(runtimeFolder === undefined ? [] : [runtimeFolder]),
    ...hipFolders(),
  ];
  const release = `${driver.version} (${compilerParts(folders)})`;
  if (!forced && hasSymbol(driver.loaded, HIPRTC_SYMBOL)) return NativeCompiler.open(HIPRTC, driver.loaded, release);
  const wanted = {
    what: "hiprtc, HIP's run-time compiler,",
    variable: HIPRTC_LIBRARY_VARIABLE,
    names: hiprtcLibraries(runtimeFolder),
    remedy: `install it (AMD's packages: hip-runtime-amd; on Windows the HIP SDK), or name the file in ${HIPRTC_LIBRARY_VARIABLE}`,
    kind: "compile",
  } as const;
  return NativeCompiler.find(HIPRTC, wanted, release);
}
