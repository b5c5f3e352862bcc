// Every name under which the HIP runtime and hiprtc may be found on this machine, the likeliest first.

import { join } from "node:path";
import { HIP_NAMES, HIP_WINDOWS_NAMES, HIPRTC_NAMES } from "./ffi.js";
import { namesIn, rocmFolders } from "./rocm-folders.js";
import { HIP_DLL, HIPRTC_DLL, librariesIn, windowsHipFolders } from "./windows-folders.js";

const IS_WINDOWS = process.platform === "win32";

/** Folders of HIP's libraries on this machine. */
export function hipFolders(): readonly string[] {
  return IS_WINDOWS ? windowsHipFolders() : rocmFolders();
}

/** Names and paths of the HIP runtime to try, in order. */
export function hipLibraries(): readonly string[] {
  if (IS_WINDOWS) return [...librariesIn(windowsHipFolders(), HIP_DLL), ...HIP_WINDOWS_NAMES];
  return namesIn(HIP_NAMES, rocmFolders());
}

/** Names and paths of hiprtc to try, in order; the folder of the loaded runtime comes first. */
export function hiprtcLibraries(runtimeFolder?: string): readonly string[] {
  if (IS_WINDOWS) {
    const folders = runtimeFolder === undefined ? [] : [runtimeFolder];
    return librariesIn([...new Set([...folders, ...windowsHipFolders()])], HIPRTC_DLL);
  }
  const beside = runtimeFolder === undefined ? [] : HIPRTC_NAMES.map((name) => join(runtimeFolder, name));
  return [...beside, ...namesIn(HIPRTC_NAMES, rocmFolders())];
}
