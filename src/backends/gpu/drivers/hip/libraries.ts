// Every name that the HIP runtime and hiprtc may be found under on this machine, the likeliest first.

import { join } from "node:path";
import { HIP_NAMES, HIPRTC_NAMES } from "./ffi.js";
import { namesIn, rocmFolders } from "./rocm-folders.js";

export function hipLibraries(): readonly string[] {
  return namesIn(HIP_NAMES, rocmFolders());
}

/** One that lies beside the runtime goes with it. */
export function hiprtcLibraries(runtimeFolder?: string): readonly string[] {
  const beside = runtimeFolder === undefined ? [] : HIPRTC_NAMES.map((name) => join(runtimeFolder, name));
  return [...beside, ...namesIn(HIPRTC_NAMES, rocmFolders())];
}
