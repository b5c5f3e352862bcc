// Locates this package's own files: the addon, kernels, worker modules, the embedded model. They are beside the code,
// unless a bundler has copied the code into another program; then the installed package is searched for from there, and
// must have the same version. If it is not found, the error says how to configure the bundler.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { PackageError } from "./errors.js";

/** The version in package.json, which is missing in a bundle; a test compares the two. */
export const PACKAGE_VERSION = "0.1.0";
const PACKAGE_NAME = "rocmforge";
const EMBEDDED_MODEL = "models/fable-10m-Q4_K_M.gguf";

/** What to do if a bundler has separated the code from the package's other files. */
export const BUNDLER_ADVICE =
  'keep rocmforge out of the bundle (esbuild, Rolldown: external: ["rocmforge"]; Next.js: serverExternalPackages: ["rocmforge"]) ' +
  "and install it where the program runs; docs/bundlers.md has more";

interface PackageLocation {
  readonly folder: string;
  /** Whether this code is a copy in another program's bundle. */
  readonly isBundled: boolean;
}

let known: PackageLocation | { readonly problem: string } | undefined;

/** The root folder of this package; throws PACKAGE_BUNDLED if it cannot be found. */
export function packageFolder(): string {
  const home = packageHome();
  if ("folder" in home) return home.folder;
  throw new PackageError("PACKAGE_BUNDLED", `[package] ${home.problem}; ${BUNDLER_ADVICE}`);
}

/** The absolute path of a file or folder of the package, given relative to its root. */
export function packageFile(path: string): string {
  return join(packageFolder(), path);
}

/** The path of the small model that comes with the package, for first tries and tests. */
export function embeddedModelPath(): string {
  return packageFile(EMBEDDED_MODEL);
}

/** Whether this code runs from a bundle. */
export function isBundled(): boolean {
  const home = packageHome();
  return !("folder" in home) || home.isBundled;
}

/** Requires a package as installed, even from a bundle. */
export function packageRequire(name: string): unknown {
  return createRequire(pathToFileURL(packageFile("package.json")))(name);
}

/** Explains a failure in a bundle by the bundling, its most likely cause; returns `error` itself outside a bundle. */
export function explainedByBundle(place: string, error: unknown): unknown {
  if (error instanceof PackageError || !isBundled()) return error;
  const reason = error instanceof Error ? error.message : String(error);
  return new PackageError("PACKAGE_BUNDLED", `[${place}] this cannot run from a bundle: ${reason}; ${BUNDLER_ADVICE}`, {
    cause: error,
  });
}

function packageHome(): PackageLocation | { readonly problem: string } {
  return (known ??= findPackage(thisFile()));
}

/** The path of this file, or of the bundle that contains it; a CommonJS bundle has no `import.meta.url`. */
function thisFile(): string | undefined {
  const url: string | undefined = import.meta.url;
  if (url?.startsWith("file:") === true) return fileURLToPath(url);
  return typeof __filename === "string" ? __filename : undefined;
}

/** Finds the package for code in the file `here`; exported for tests. */
export function findPackage(here: string | undefined): PackageLocation | { readonly problem: string } {
  if (here !== undefined) {
    // One folder up from src/ and dist/; benchmarks are compiled one folder deeper.
    const folder = [dirname(dirname(here)), dirname(dirname(dirname(here)))].find(
      (candidate) => versionIn(candidate) !== undefined,
    );
    if (folder !== undefined) return { folder, isBundled: false };
  }
  const starts = [here, process.argv[1], join(process.cwd(), "here")].filter(
    (start) => start !== undefined && start !== "",
  );
  const folder = starts.map((start) => installedFor(start as string)).find((found) => found !== undefined);
  const from = here === undefined ? "" : ` into ${here}`;
  if (folder === undefined)
    return {
      problem: `rocmforge's code was bundled${from}, and the package with its other files is not installed beside it`,
    };
  const version = versionIn(folder);
  if (version !== PACKAGE_VERSION)
    return {
      problem: `rocmforge ${PACKAGE_VERSION} was bundled${from}, and ${version ?? "something else"} is installed in ${folder}`,
    };
  return { folder, isBundled: true };
}

function installedFor(start: string): string | undefined {
  try {
    return dirname(createRequire(start).resolve(`${PACKAGE_NAME}/package.json`));
  } catch {
    return undefined;
  }
}

function versionIn(folder: string): string | undefined {
  try {
    const { name, version } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as Readonly<
      Record<string, unknown>
    >;
    return name === PACKAGE_NAME && typeof version === "string" ? version : undefined;
  } catch {
    return undefined;
  }
}
