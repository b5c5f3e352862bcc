// Where Windows keeps HIP: the HIP SDK's folders, pip's packages, and System32, where AMD's display driver installs the
// runtime. File names carry versions in several forms (amdhip64_6.dll, hiprtc0602.dll), so folders are listed.

import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { foldersLike } from "../shared/library-folders.js";

/** `6.2`, under `Program Files\AMD\ROCm`. */
const VERSION = /^\d+(?:\.\d+)*$/;
/** `HIP_PATH`, and `HIP_PATH_62` for each installed version of the SDK. */
const HIP_VARIABLE = /^(?:HIP_PATH(?:_\d+)?|ROCM_PATH)$/i;
const PIP_FOLDER = /^_rocm_sdk_(?:core|libraries)/;
/** Windows names of the HIP runtime. */
export const HIP_DLL = /^amdhip64(?:_\d+)?\.dll$/i;
/** Windows names of hiprtc, HIP's run-time compiler; not of the library with its built-in headers. */
export const HIPRTC_DLL = /^hiprtc(?:\d+)?\.dll$/i;

/** Folders of HIP's libraries on Windows that exist, the environment's first and the system's last. */
export function windowsHipFolders(environment: NodeJS.ProcessEnv = process.env): readonly string[] {
  const variables = Object.entries(environment).filter(
    ([name, value]) => HIP_VARIABLE.test(name) && value !== undefined && value !== "",
  );
  // The one without a version first, then the newest version.
  const named = variables
    .toSorted(([left], [right]) => left.length - right.length || right.localeCompare(left, "en", { numeric: true }))
    .map(([, folder]) => folder as string);
  const programs = environment["ProgramFiles"] ?? "C:\\Program Files";
  const installed = foldersLike(join(programs, "AMD", "ROCm"), VERSION, "");
  const active = [environment["VIRTUAL_ENV"], environment["CONDA_PREFIX"]].filter(
    (folder) => folder !== undefined && folder !== "",
  );
  const pip = active.flatMap((folder) => foldersLike(join(folder ?? "", "Lib", "site-packages"), PIP_FOLDER, ""));
  const system = join(environment["SystemRoot"] ?? "C:\\Windows", "System32");
  const folders = [...[...named, ...installed, ...pip].map((root) => join(root, "bin")), system];
  return [...new Set(folders)].filter((folder) => existsSync(folder));
}

/** Paths of the libraries in these folders whose names match, in each folder the highest version first. */
export function librariesIn(folders: readonly string[], pattern: RegExp): readonly string[] {
  return folders.flatMap((folder) => {
    try {
      return readdirSync(folder)
        .filter((name) => pattern.test(name))
        .toSorted((left, right) => right.localeCompare(left, "en", { numeric: true }))
        .map((name) => join(folder, name));
    } catch {
      return [];
    }
  });
}
