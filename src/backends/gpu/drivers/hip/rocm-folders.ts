// Where ROCm's libraries may lie beside the system's own folders: what the environment names, AMD's packages under
// /opt, and pip's packages (rocm-sdk-core, rocm-sdk-libraries-…, whose files are in `_rocm_sdk_core/lib` and
// `_rocm_sdk_libraries_…/lib`).

import { existsSync } from "node:fs";
import { join } from "node:path";
import { foldersLike, pythonPackageFolders } from "../shared/library-folders.js";

/** `rocm`, `rocm-6.4.3` */
const VERSIONED = /^rocm(?:-[\d.]+)?$/;
/** `/opt/rocm/core-7.11`, as newer packages have it. */
const CORE = /^core(?:-[\d.]+)?$/;
const PIP_PACKAGE = /^_rocm_sdk_(?:core|libraries)/;
const VARIABLES = ["ROCM_PATH", "HIP_PATH"] as const;
const LIBRARY_FOLDERS = ["lib", "lib64"] as const;

interface RocmPlaces {
  readonly environment?: NodeJS.ProcessEnv;
  /** Where AMD's packages install. */
  readonly parent?: string;
  /** Where pip's do; asked for only if this is left out. */
  readonly packageFolders?: readonly string[];
}

/** Folders that are there, each once. */
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

/** The system's loader is asked for each name first, newest first, then each folder for all of them. */
export function namesIn(names: readonly string[], folders: readonly string[]): readonly string[] {
  return [...names, ...folders.flatMap((folder) => names.map((name) => join(folder, name)))];
}
