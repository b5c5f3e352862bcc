// Finds an installed program on the PATH, so that a missing one can be reported before anything is started.

import { constants } from "node:fs";
import { access, stat } from "node:fs/promises";
import { delimiter, join } from "node:path";

/** The path of a program; undefined if no folder of the PATH has it. */
export async function findProgram(name: string, path: string | undefined): Promise<string | undefined> {
  for (const folder of (path ?? "").split(delimiter)) {
    if (folder === "") continue;
    const candidate = join(folder, process.platform === "win32" ? `${name}.exe` : name);
    if (await isProgram(candidate)) return candidate;
  }
  return undefined;
}

async function isProgram(path: string): Promise<boolean> {
  try {
    await access(path, constants.X_OK);
    return (await stat(path)).isFile();
  } catch {
    return false;
  }
}
