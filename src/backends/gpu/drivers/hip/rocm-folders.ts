// Where ROCm's libraries may be installed outside the system's folders: folders named by the environment, AMD's
// packages under /opt, and pip's packages (rocm-sdk-core, rocm-sdk-libraries-…, with files in `_rocm_sdk_core/lib` and
// `_rocm_sdk_libraries_…/lib`).

import { existsSync } from "node:fs";
import { join } from "node:path";
import { foldersLike, pythonPackageFolders } from "../shared/library-folders.js";

/** `rocm`, `rocm-6.4.3` */
const VERSIONED = /^rocm(?:-[\d.]+)?$/;
/** `/opt/rocm/core-7.11`, the layout of newer packages. */
const CORE = /^core(?:-[\d.]+)?$/;
const PIP_PACKAGE = /^_rocm_sdk_(?:core|libraries)/;
const VARIABLES = ["ROCM_PATH", "HIP_PATH"] as const;
const LIBRARY_FOLDERS = ["lib", "lib64"] as const;

interface RocmPlaces {
  readonly environment?: NodeJS.ProcessEnv;
  /** Parent folder of AMD's packages. */
  readonly parent?: string;
  /** Folders of pip's packages; detected if absent. */
  readonly packageFolders?: readonly string[];
}

/** ROCm's library folders that exist on this machine, without duplicates. */
export function rocmFolders({
  environment = process.env,
  parent = "/opt",
  packageFolders = pythonPackageFolders(environment),
}: RocmPlaces = {}): readonly string[] {
  const named = VARIABLES.map((variable) => environment[variable] ?? "").filter((folder) => folder !== "");
  const installed = foldersLike(parent, VERSIONED, "").flatMap((folder) => [...foldersLike(folder, CORE, ""), folder]);
  const roots = [...named, ...installed, ...packageFolders.flatMap((folder) => foldersLike(folder, PIP_PACKAGE, ""))];
  const folders = roots.flatMap((root) => LIBRARY_FOLDERS.map((name) => join(root, name)));
  return [...new Set(folders)].filter((folder) => existsSync(folder));
}

/** Candidates to load: each bare name for the system's loader, newest first, then all names in each folder. */
export function namesIn(names: readonly string[], folders: readonly string[]): readonly string[] {
  return [...names, ...folders.flatMap((folder) => names.map((name) => join(folder, name)))];
}
