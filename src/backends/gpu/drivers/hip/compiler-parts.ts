// Components that hiprtc compiles with and does not report: comgr, which is the actual compiler and has its own
// package, and hiprtc's built-in headers. hiprtc loads them at its first compilation, under names that only its build
// knows, so every candidate file is part of the key of cached kernels: code compiled by one of them is not mistaken for
// another's.

import { readdirSync } from "node:fs";
import { basename, join } from "node:path";
import { libraryFileAt } from "../shared/ffi.js";

const PART =
  /^(?:lib(?:amd_comgr|amd_comgr_loader|hiprtc-builtins)\.so(?:\.[\d.]+)?|(?:amd_comgr|hiprtc-builtins)[\w.-]*\.dll)$/;
/** Folders that the system's loader searches by default. */
const SYSTEM_FOLDERS = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/lib"];

/**
 * Names, sizes and modification times of the compiler's files in these folders, in the loader's search path and in the
 * system's folders; the same text for the same files.
 */
export function compilerParts(folders: readonly string[], environment: NodeJS.ProcessEnv = process.env): string {
  const searched = (environment["LD_LIBRARY_PATH"] ?? "").split(":").filter((folder) => folder !== "");
  const files = new Map<string, string>();
  for (const folder of new Set([...folders, ...searched, ...SYSTEM_FOLDERS])) {
    for (const name of namesIn(folder)) {
      const file = libraryFileAt(join(folder, name));
      // Several links to one file count once.
      if (file !== undefined) files.set(file.path, `${basename(file.path)} ${file.sizeBytes} ${file.modifiedMs}`);
    }
  }
  return [...files.values()].toSorted().join(", ");
}

function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder).filter((name) => PART.test(name));
  } catch {
    return [];
  }
}
