// What hiprtc compiles with and does not say: comgr, which is the compiler proper and comes in a package of its own,
// and hiprtc's built-in headers. hiprtc loads them when it first compiles, by names that only its build knows, so every
// file that it could be is looked at: code that one of them has made is not taken for another's.

import { readdirSync } from "node:fs";
import { basename, join } from "node:path";
import { libraryFileAt } from "../shared/ffi.js";

const PART = /^lib(?:amd_comgr|amd_comgr_loader|hiprtc-builtins)\.so(?:\.[\d.]+)?$/;
/** Where the system's loader looks by itself. */
const SYSTEM_FOLDERS = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/lib"];

/**
 * Names, sizes and times of the files in these folders, in the loader's search path and in the system's own; the same
 * text for the same files.
 */
export function compilerParts(folders: readonly string[], environment: NodeJS.ProcessEnv = process.env): string {
  const searched = (environment["LD_LIBRARY_PATH"] ?? "").split(":").filter((folder) => folder !== "");
  const files = new Map<string, string>();
  for (const folder of new Set([...folders, ...searched, ...SYSTEM_FOLDERS])) {
    for (const name of namesIn(folder)) {
      const file = libraryFileAt(join(folder, name));
      // Links to one file say nothing new.
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
