// What was learned of run-time compilers by loading them, on disk beside the kernels that they made: a start whose
// kernels are all there already need not load a compiler, which is a hundred megabytes, to know which it would be. Good
// for as long as the file is the same and nothing has changed about where the system looks for it.

import { createHash, randomBytes } from "node:crypto";
import { mkdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { kernelCacheFolder } from "./cache-folder.js";
import type { WantedLibrary } from "./driver-library.js";
import { type LibraryFile, libraryFileAt } from "./ffi.js";

const FILE_NAME = "compilers.json";
/** More than that is not ours. */
const MAX_FILE_BYTES = 64 << 10;
/** Of a machine that changes its libraries often, the last ones. */
const MAX_KEPT = 8;
/** Where the system's loader has what it knows of its folders. */
const LOADER_CACHE = "/etc/ld.so.cache";

export interface KnownCompiler {
  /** The name it loads under. */
  readonly library: string;
  readonly version: string;
  readonly file: LibraryFile;
}

/** Undefined if it was never loaded, or may be another one by now. */
export function recallCompiler(wanted: WantedLibrary, folder = kernelCacheFolder()): KnownCompiler | undefined {
  const found = readKnown(folder)[keyOf(wanted)];
  if (!isKnownCompiler(found)) return undefined;
  const file = libraryFileAt(found.library.includes("/") ? found.library : found.file.path);
  const isSame =
    file !== undefined &&
    file.path === found.file.path &&
    file.sizeBytes === found.file.sizeBytes &&
    file.modifiedMs === found.file.modifiedMs;
  return isSame ? found : undefined;
}

/** A folder that cannot be written to costs time at the next start. */
export function rememberCompiler(wanted: WantedLibrary, compiler: KnownCompiler, folder = kernelCacheFolder()): void {
  const path = join(folder, FILE_NAME);
  const unfinished = `${path}.${randomBytes(6).toString("hex")}.tmp`;
  const key = keyOf(wanted);
  const others = Object.entries(readKnown(folder)).filter(([name]) => name !== key);
  const known = Object.fromEntries([...others.slice(-(MAX_KEPT - 1)), [key, compiler]]);
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    writeFileSync(unfinished, `${JSON.stringify(known)}\n`, { flag: "wx", mode: 0o600 });
    renameSync(unfinished, path);
  } catch {
    remove(unfinished);
  }
}

function remove(path: string): void {
  try {
    rmSync(path, { force: true });
  } catch {
    // There is not even a folder.
  }
}

/** What decides which file a name leads to. */
function keyOf({ variable, names }: WantedLibrary): string {
  const named = process.env[variable] ?? "";
  const folders = (process.env["LD_LIBRARY_PATH"] ?? "").split(":").filter((folder) => folder !== "");
  const places = [LOADER_CACHE, ...folders].map((path) => [path, changedMs(path)]);
  return createHash("sha256")
    .update(JSON.stringify([variable, named === "" ? names : [named], places]))
    .digest("hex");
}

function changedMs(path: string): number | null {
  try {
    return statSync(path).mtimeMs;
  } catch {
    return null;
  }
}

function readKnown(folder: string): Readonly<Record<string, unknown>> {
  const path = join(folder, FILE_NAME);
  try {
    if (statSync(path).size > MAX_FILE_BYTES) return {};
    const known: unknown = JSON.parse(readFileSync(path, "utf8"));
    return typeof known === "object" && known !== null && !Array.isArray(known) ? { ...known } : {};
  } catch {
    return {};
  }
}

/** The file may have been changed by other programs. */
function isKnownCompiler(value: unknown): value is KnownCompiler {
  if (
    typeof value !== "object" ||
    value === null ||
    !("library" in value) ||
    !("version" in value) ||
    !("file" in value)
  )
    return false;
  const { library, version, file } = value;
  if (typeof library !== "string" || typeof version !== "string" || typeof file !== "object" || file === null)
    return false;
  return (
    "path" in file &&
    typeof file.path === "string" &&
    "sizeBytes" in file &&
    typeof file.sizeBytes === "number" &&
    "modifiedMs" in file &&
    typeof file.modifiedMs === "number"
  );
}
