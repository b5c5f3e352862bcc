// Folders of libraries that the system's loader does not search: versioned folders of a package, and pip's packages in
// the site-packages of an environment. Newest first.

import { readdirSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";

/** Where Python packages outside an environment are installed. */
const PYTHON_PARENTS = ["/usr/local/lib", "/usr/lib"];
const PYTHON = /^python3(?:\.\d+)?$/;
const PACKAGE_FOLDERS = ["site-packages", "dist-packages"];

/** Existing folders `parent/<matching name>/below`, the highest version first. */
export function foldersLike(parent: string, pattern: RegExp, below: string): readonly string[] {
  try {
    const names = readdirSync(parent).filter((name) => pattern.test(name));
    return names
      .sort((left, right) => right.localeCompare(left, "en", { numeric: true }))
      .map((name) => join(parent, name, below));
  } catch {
    return [];
  }
}

/** Folders that pip installs packages into: the active environment's first, then the user's, then the system's. */
export function pythonPackageFolders(
  environment: NodeJS.ProcessEnv = process.env,
  parents: readonly string[] = PYTHON_PARENTS,
): readonly string[] {
  const active = [environment["VIRTUAL_ENV"], environment["CONDA_PREFIX"]].filter(
    (folder) => folder !== undefined && folder !== "",
  );
  const roots = [
    ...active.map((folder) => join(folder ?? "", "lib")),
    join(environment["HOME"] ?? homedir(), ".local", "lib"),
    ...parents,
  ];
  return roots.flatMap((root) => PACKAGE_FOLDERS.flatMap((name) => foldersLike(root, PYTHON, name)));
}
