// hiprtc and NVRTC as the backend itself drives them: its own bindings, its own options, its own child processes.

import type { DriverKind } from "../../../src/backends/gpu/drivers/shared/driver.js";
import { NVRTC } from "../../../src/backends/gpu/drivers/cuda/compiler.js";
import { nvrtcLibraries } from "../../../src/backends/gpu/drivers/cuda/ffi.js";
import { HIPRTC } from "../../../src/backends/gpu/drivers/hip/compiler.js";
import { HIPRTC_SYMBOL } from "../../../src/backends/gpu/drivers/hip/ffi.js";
import { hipLibraries, hiprtcLibraries } from "../../../src/backends/gpu/drivers/hip/libraries.js";
import { NativeCompiler } from "../../../src/backends/gpu/drivers/shared/compiler.js";
import { isUnavailableDriver } from "../../../src/backends/gpu/drivers/shared/driver-library.js";
import { hasSymbol, openLibrary } from "../../../src/backends/gpu/drivers/shared/ffi.js";
import { readCodeObject } from "./code-object.js";
import type { MissingToolchain, Toolchain } from "./toolchain.js";

/** Any driver: the newest compiler will do. */
const NEWEST_DRIVER = 99;

const ABSENT: Readonly<Record<DriverKind, string>> = {
  hip: "there is no libamdhip64 here; Debian: apt-get install libamdhip64-5 libhiprtc-builtins5",
  cuda: "there is no libnvrtc here; NVIDIA's packages: cuda-nvrtc-13-0 or later",
};

/** The compiler alone: no device is looked for. */
export function openCompiler(kind: DriverKind): NativeCompiler | MissingToolchain {
  const library = kind === "hip" ? hiprtcLibrary() : openLibrary(nvrtcLibraries(NEWEST_DRIVER));
  if ("missing" in library) return { missing: library.missing === "absent" ? ABSENT[kind] : library.reason };
  const compiler = NativeCompiler.open(kind === "hip" ? HIPRTC : NVRTC, library);
  return isUnavailableDriver(compiler) ? { missing: compiler.reason } : compiler;
}

/** Inside the runtime up to 5.x, beside it later. */
function hiprtcLibrary(): ReturnType<typeof openLibrary> {
  const runtime = openLibrary(hipLibraries());
  return "missing" in runtime || hasSymbol(runtime, HIPRTC_SYMBOL) ? runtime : openLibrary(hiprtcLibraries());
}

export function runTimeCompiler(kind: DriverKind): Toolchain | MissingToolchain {
  const compiler = openCompiler(kind);
  if ("missing" in compiler) return compiler;
  return {
    name: compiler.summary,
    identity: compiler.identity,
    async compile({ name, source, defines, target: { architecture, device } }) {
      try {
        const code = await compiler.compile(source, { name, architecture, waveSize: device.waveSize, defines });
        return kind === "hip" ? readCodeObject(code) : undefined;
      } catch (error) {
        throw withLog(error);
      }
    },
  };
}

/** The message has the first complaint; here all of them are wanted. */
function withLog(error: unknown): unknown {
  if (!(error instanceof Error) || !("details" in error)) return error;
  const { log } = error.details as { readonly log?: string };
  return log === undefined ? error : new Error(`${error.message}\n${log}`, { cause: error });
}
