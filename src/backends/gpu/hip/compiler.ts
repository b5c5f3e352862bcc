// hiprtc, AMD's run-time compiler: inside the HIP runtime up to 6.x, beside it from 6.x on.

import { type CompilerFlavour, defineOptions } from "../native/compiler-flavour.js";
import { NativeCompiler } from "../native/compiler.js";
import type { DriverObstacle } from "../native/driver-library.js";
import { hasSymbol } from "../native/ffi.js";
import type { HipDriver } from "./driver.js";
import { HIPRTC_CALLS, HIPRTC_LIBRARIES, HIPRTC_LIBRARY_VARIABLE, HIPRTC_SYMBOL } from "./ffi.js";

export const HIPRTC: CompilerFlavour = {
  kind: "hip",
  name: "hiprtc",
  prototypes: HIPRTC_CALLS,
  options: (options) => [`--gpu-architecture=${options.architecture}`, "-std=c++17", "-O3", ...defineOptions(options)],
};

export function findHipCompiler(driver: HipDriver): NativeCompiler | DriverObstacle {
  const named = process.env[HIPRTC_LIBRARY_VARIABLE];
  const forced = named !== undefined && named !== "";
  // hiprtc's own version number has stood still for years: the runtime's tells its releases apart.
  if (!forced && hasSymbol(driver.loaded, HIPRTC_SYMBOL)) return NativeCompiler.open(HIPRTC, driver.loaded, driver.version);
  const wanted = {
    what: "hiprtc, HIP's run-time compiler,",
    variable: HIPRTC_LIBRARY_VARIABLE,
    names: HIPRTC_LIBRARIES,
    remedy: `install it (AMD's packages: hip-runtime-amd), or name the file in ${HIPRTC_LIBRARY_VARIABLE}`,
    kind: "compile",
  } as const;
  return NativeCompiler.find(HIPRTC, wanted, driver.version);
}
