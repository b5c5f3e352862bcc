// Versions of run-time compilers, recorded on disk beside the kernels that they compiled: a start whose kernels are all
// cached need not load a compiler, which is a hundred megabytes, to know its version. A record is valid while the file
// and the loader's search path are unchanged.

import { createHash, randomBytes } from "node:crypto";
import { mkdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { kernelCacheFolder } from "../../../cache-folder.js";
import type { WantedLibrary } from "./driver-library.js";
import { type LibraryFile, libraryFileAt } from "./ffi.js";

const FILE_NAME = "compilers.json";
/** A larger file was not written by this code. */
const MAX_FILE_BYTES = 64 << 10;
/** Most recent records kept, for machines whose libraries change often. */
const MAX_KEPT = 8;
/** The system loader's cache of its folders. */
const LOADER_CACHE = "/etc/ld.so.cache";

/** A compiler's version and the file it was read from. */
export interface KnownCompiler {
  /** The name under which it was loaded. */
  readonly library: string;
  readonly version: string;
  readonly file: LibraryFile;
}

/** The recorded compiler; undefined if it was never loaded or may have changed since. */
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

/** Records a compiler; if the folder is not writable, the next start takes longer. */
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
    // The folder may not exist.
  }
}

/** Everything that determines which file a name resolves to. */
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

/** Other programs may have changed the file. */
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
