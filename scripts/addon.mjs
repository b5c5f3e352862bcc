// Finds the prebuilt addon in this platform's package, or builds native/cpu with npm's own node-gyp, once for each state
// of its sources. Invariants: needs nothing but Node, since it also runs where the package is installed; one build at a
// time; a failed build leaves no addon of other sources behind and records the reason (native/cpu/build-failure.json),
// which the loader reports.

import { createHash } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { createRequire } from "node:module";
import { availableParallelism, totalmem } from "node:os";
import { delimiter, dirname, join, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { explainBuild } from "./addon-failure.mjs";
import { readIfThere, withBuildLock } from "./build-lock.mjs";
import { runProgram } from "./tool.mjs";

export const PACKAGE = dirname(dirname(fileURLToPath(import.meta.url)));
const FOLDER = join(PACKAGE, "native", "cpu");
export const ADDON_NAME = "rocmforge_cpu.node";
export const BUILT_ADDON = join(FOLDER, "build", "Release", ADDON_NAME);
/** The hash of the sources, stored beside the addon in build/Release and in a platform's package. */
export const STAMP_NAME = "sources.sha256";
const THIS_PLATFORM = `${process.platform}-${process.arch}`;
const FAILURE = join(FOLDER, "build-failure.json");
const LOCK = join(FOLDER, "build-lock");
/** Outside of build/, which a rebuild empties. */
const KEPT_ADDON = join(FOLDER, ".cache", ADDON_NAME);

/** What the compiler reads; tests and everything that a build writes aside. */
const SOURCE_FOLDERS = ["binding", "engine", "instructions", "kernels"];
const BUILD_LIMIT_MS = 20 * 60_000;
/** Longer than any build: each of its two commands is ended after BUILD_LIMIT_MS. */
const LOCK_LIMIT_MS = 2.5 * BUILD_LIMIT_MS;
/** The largest unit takes about half of this to compile. */
const MEMORY_PER_JOB_BYTES = 1 << 30;

/** @param {string} platform such as linux-x64 */
export function addonSourceHash(platform = THIS_PLATFORM) {
  const hash = createHash("sha256").update(`${platform}\0`);
  const sources = SOURCE_FOLDERS.filter((folder) => existsSync(join(FOLDER, folder))).flatMap((folder) =>
    // The same names on every platform: a package is stamped on Linux and checked on Windows.
    readdirSync(join(FOLDER, folder), { recursive: true }).map((name) => [folder, ...name.split(sep)].join("/")),
  );
  for (const name of ["binding.gyp", ...sources.filter((source) => /\.(?:cpp|h)$/.test(source))].toSorted()) {
    hash
      .update(name)
      .update("\0")
      .update(readFileSync(join(FOLDER, name)))
      .update("\0");
  }
  return hash.digest("hex");
}

/** Whether the addon's sources are present: a package or checkout without them has no addon. */
export function hasAddonSources() {
  return existsSync(join(FOLDER, "binding.gyp")) && SOURCE_FOLDERS.every((folder) => existsSync(join(FOLDER, folder)));
}

function isMadeOf(addon, hash) {
  return existsSync(addon) && readIfThere(join(dirname(addon), STAMP_NAME)) === hash;
}

/** Runs in a separate process, because an addon that does not fit this machine may crash the process that loads it. */
async function loads(addon) {
  const { exitCode } = await runProgram(process.execPath, ["-e", "require(process.argv[1])", addon]);
  return exitCode === 0;
}

/** The addon of the platform's optional package, as the loader finds it; undefined if the package is not installed. */
function prebuiltAddon() {
  try {
    return createRequire(join(PACKAGE, "package.json")).resolve(`@rocmforge/cpu-${THIS_PLATFORM}/${ADDON_NAME}`);
  } catch {
    return undefined;
  }
}

async function fittingAddon(hash) {
  for (const addon of [BUILT_ADDON, prebuiltAddon()]) {
    if (addon !== undefined && isMadeOf(addon, hash) && (await loads(addon))) return addon;
  }
  return undefined;
}

/**
 * The addon built from these sources that loads here and that the loader prefers: an old build would come before a
 * prebuilt one.
 */
export async function findAddon(hash = addonSourceHash()) {
  const addon = await fittingAddon(hash);
  return addon !== BUILT_ADDON && existsSync(BUILT_ADDON) ? undefined : addon;
}

/** npm passes the path to its scripts; outside of npm it is searched for beside the npm on the PATH or beside Node. */
function nodeGyp() {
  const given = process.env["npm_config_node_gyp"];
  if (given !== undefined && existsSync(given)) return given;
  const prefix = dirname(dirname(process.execPath));
  const onPath = (process.env["PATH"] ?? "").split(delimiter).map((folder) => join(folder, "npm"));
  const besideNode = [join(prefix, "lib"), dirname(process.execPath)].map((folder) =>
    join(folder, "node_modules", "npm", "bin", "npm-cli.js"),
  );
  for (const npm of [process.env["npm_execpath"], ...onPath, ...besideNode]) {
    if (npm === undefined || !existsSync(npm)) continue;
    try {
      return createRequire(realpathSync(npm)).resolve("node-gyp/bin/node-gyp.js");
    } catch {
      // Another package manager's program, or an npm without node-gyp.
    }
  }
  return undefined;
}

/** The headers that came with this Node, so that none are downloaded. */
function headerFlags() {
  const folders = [process.env["npm_config_nodedir"], dirname(dirname(process.execPath))].filter(
    (folder) => folder !== undefined,
  );
  const found = folders.find((folder) =>
    ["node_api.h", "common.gypi"].every((name) => existsSync(join(folder, "include", "node", name))),
  );
  return found === undefined ? [] : [`--nodedir=${found}`];
}

/**
 * Builds unless the sources' addon is there already (`anew` builds all the same). Never throws for a build that fails.
 * @returns {Promise<{ addon: string } | { failure: { kind: "tools" | "sources", reason: string, remedy: string, tail: string } }>}
 */
export async function buildAddon({ anew = false } = {}) {
  const hash = addonSourceHash();
  try {
    return await withBuildLock(LOCK, { limitMs: LOCK_LIMIT_MS }, async () => {
      const found = anew ? undefined : await fittingAddon(hash);
      if (found !== undefined) {
        // The loader would prefer an old build to the one that came with the package.
        if (found !== BUILT_ADDON) rmSync(BUILT_ADDON, { force: true });
        rmSync(FAILURE, { force: true });
        return { addon: found };
      }
      return await compile(hash, anew);
    });
  } catch (error) {
    if (typeof error?.code !== "string") throw error;
    return { failure: explainBuild(`${error.code}: ${error.message}`) };
  }
}

async function compile(hash, anew) {
  const kept = anew && isMadeOf(BUILT_ADDON, hash) && (await loads(BUILT_ADDON));
  if (kept) move(BUILT_ADDON, KEPT_ADDON);
  // An interrupted build must not be taken for one of the earlier sources.
  const stamp = join(dirname(BUILT_ADDON), STAMP_NAME);
  rmSync(stamp, { force: true });
  const restore = () => {
    move(KEPT_ADDON, BUILT_ADDON);
    writeFileSync(stamp, hash);
  };
  let failure;
  try {
    failure = await runBuild(anew);
  } catch (error) {
    if (kept) restore();
    throw error;
  }
  if (failure === undefined) {
    writeFileSync(stamp, hash);
    for (const path of [FAILURE, KEPT_ADDON]) rmSync(path, { force: true });
    return { addon: BUILT_ADDON };
  }
  if (kept && failure.kind === "tools") {
    restore();
    return { failure };
  }
  // An old addon of other sources would hide the failure.
  for (const path of [BUILT_ADDON, KEPT_ADDON]) rmSync(path, { force: true });
  writeFileSync(FAILURE, `${JSON.stringify({ ...failure, sources: hash, node: process.version }, undefined, 2)}\n`);
  return { failure };
}

function move(from, to) {
  mkdirSync(dirname(to), { recursive: true });
  renameSync(from, to);
}

async function runBuild(anew) {
  const gyp = nodeGyp();
  const memoryBytes = Math.min(
    totalmem(),
    process.constrainedMemory() || Infinity,
    process.availableMemory?.() ?? Infinity,
  );
  const jobs = Math.max(1, Math.min(availableParallelism(), Math.floor(memoryBytes / MEMORY_PER_JOB_BYTES)));
  const commands = anew ? ["rebuild"] : ["configure", "build"];
  const options = [...headerFlags(), "--release", `--jobs=${jobs}`, "--loglevel=error"];
  const output = gyp === undefined ? "node-gyp was not found" : await runAll(gyp, commands, options);
  return output === undefined ? undefined : explainBuild(output);
}

/** The error in the words of the tool that failed; undefined if the addon is built and loads. */
async function runAll(gyp, commands, options) {
  for (const command of commands) {
    const { exitCode, output, timedOut } = await runProgram(process.execPath, [gyp, command, ...options], {
      cwd: FOLDER,
      timeoutMs: BUILD_LIMIT_MS,
    });
    if (timedOut) return `error: node-gyp ${command} was ended after ${BUILD_LIMIT_MS / 60_000} minutes`;
    if (exitCode !== 0) return output;
  }
  return (await loads(BUILT_ADDON)) ? undefined : "error: the addon was built but does not load";
}

/** The recorded failure of an earlier build. */
export function recordedFailure() {
  try {
    return JSON.parse(readFileSync(FAILURE, "utf8"));
  } catch {
    return undefined;
  }
}
