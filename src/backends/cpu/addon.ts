// Finds and loads the C++ addon, or returns why it is unavailable and what to do, in the same words for errors and
// `doctor`. A build made on this machine is preferred to the prebuilt addon of the platform's optional package, which is
// found at run time, so that no install script is needed.

import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { RocmForgeError } from "../../errors.js";
import { BUNDLER_ADVICE, packageFolder } from "../../package-files.js";
import type { NativeAddon } from "./native-bindings.js";

/** The version of the native bindings: raised here and in the addon whenever native/cpu/index.d.ts changes its meaning. */
export const BINDINGS_VERSION = 9;

const ADDON_NAME = "rocmforge_cpu.node";
/** The optional package that has the prebuilt addon for this platform, if there is one for it. */
const PLATFORM_PACKAGE = `@rocmforge/cpu-${process.platform}-${process.arch}`;
/** Platforms with such a package; a test compares them with package.json. */
export const PREBUILT_PLATFORMS: readonly string[] = ["linux-x64", "linux-arm64", "win32-x64"];
const BUILD_ANEW = "run `rocmforge doctor --build`";
const MAX_SHOWN_CHARACTERS = 400;

interface LoadedAddon {
  readonly addon: NativeAddon;
  readonly path: string;
}

interface MissingAddon {
  readonly reason: string;
  readonly remedy: string;
}

const FUNCTIONS = [
  "mapRegion",
  "allocateRegion",
  "createKvCache",
  "kvCacheBytes",
  "compile",
  "measureReadBandwidth",
  "measureDotProductPeak",
] as const satisfies readonly (keyof NativeAddon)[];

/** Files that may be the addon, the preferred one first. */
function addonPaths(folder: string): readonly string[] {
  const built = join(folder, "native", "cpu", "build", "Release", ADDON_NAME);
  const prebuilt = prebuiltPath(folder);
  return prebuilt === undefined ? [built] : [built, prebuilt];
}

/** The addon in the platform's package, wherever the package manager has put it for the package in `folder`. */
function prebuiltPath(folder: string): string | undefined {
  try {
    return createRequire(pathToFileURL(join(folder, "package.json"))).resolve(`${PLATFORM_PACKAGE}/${ADDON_NAME}`);
  } catch {
    return undefined;
  }
}

/** Loads the addon once, or returns why it is unavailable. */
export function loadAddon(folder?: string): LoadedAddon | MissingAddon {
  try {
    return loadFrom(folder ?? packageFolder());
  } catch (error) {
    if (!(error instanceof RocmForgeError)) throw error;
    return { reason: "a bundler has separated this code from the native addon", remedy: BUNDLER_ADVICE };
  }
}

function loadFrom(folder: string): LoadedAddon | MissingAddon {
  const present = addonPaths(folder).filter((path) => existsSync(path));
  if (present.length === 0) return explainAbsence(folder);
  const problems: string[] = [];
  for (const path of present) {
    const loaded = tryPath(path);
    if (typeof loaded !== "string") return loaded;
    problems.push(`${path} ${loaded}`);
  }
  return { reason: problems.join("; "), remedy: BUILD_ANEW };
}

/** The addon, or what is wrong with it, worded as the rest of a sentence. */
function tryPath(path: string): LoadedAddon | string {
  let found: unknown;
  try {
    found = createRequire(path)(path);
  } catch (error) {
    return `does not load: ${oneLine(error instanceof Error ? error.message : String(error))}`;
  }
  const addon = found as Partial<NativeAddon> | null | undefined;
  if (addon?.bindingsVersion !== BINDINGS_VERSION) {
    return `was built for another version of this package (its bindings are version ${String(addon?.bindingsVersion)}, expected ${BINDINGS_VERSION})`;
  }
  const missing = FUNCTIONS.filter((name) => typeof addon[name] !== "function");
  if (missing.length > 0) return `lacks ${missing.join(", ")}`;
  if (!Array.isArray(addon.isas) || addon.isas.length === 0) return "has no kernels that this processor can run";
  return { addon: addon as NativeAddon, path };
}

/** Why there is no addon: the failure that the last build recorded, or that none was attempted. */
function explainAbsence(folder: string): MissingAddon {
  const failure = readFailure(join(folder, "native", "cpu", "build-failure.json"));
  if (failure !== undefined)
    return { reason: `the native addon could not be built: ${failure.reason}`, remedy: failure.remedy };
  const isPrebuilt = PREBUILT_PLATFORMS.includes(`${process.platform}-${process.arch}`);
  const absent = isPrebuilt
    ? `, and the package ${PLATFORM_PACKAGE} is not installed (an install with --omit=optional leaves it out)`
    : " (an install with --ignore-scripts leaves it out)";
  return { reason: `the native addon has not been built${absent}`, remedy: BUILD_ANEW };
}

function readFailure(path: string): MissingAddon | undefined {
  try {
    const { reason, remedy } = JSON.parse(readFileSync(path, "utf8")) as Readonly<Record<string, unknown>>;
    return typeof reason === "string" && typeof remedy === "string"
      ? { reason: oneLine(reason), remedy: oneLine(remedy) }
      : undefined;
  } catch {
    return undefined;
  }
}

function oneLine(text: string): string {
  const line = text.replace(/\s+/g, " ").trim();
  return line.length <= MAX_SHOWN_CHARACTERS ? line : `${line.slice(0, MAX_SHOWN_CHARACTERS)}…`;
}
