// Every name under which the HIP runtime and hiprtc may be found on this machine, the likeliest first.

import { join } from "node:path";
import { HIP_NAMES, HIPRTC_NAMES } from "./ffi.js";
import { namesIn, rocmFolders } from "./rocm-folders.js";

/** Names and paths of the HIP runtime to try, in order. */
export function hipLibraries(): readonly string[] {
  return namesIn(HIP_NAMES, rocmFolders());
}

/** Names and paths of hiprtc to try, in order; the folder of the loaded runtime comes first. */
export function hiprtcLibraries(runtimeFolder?: string): readonly string[] {
  const beside = runtimeFolder === undefined ? [] : HIPRTC_NAMES.map((name) => join(runtimeFolder, name));
  return [...beside, ...namesIn(HIPRTC_NAMES, rocmFolders())];
}
