// Installs a folder's npm packages if they differ from its package-lock.json. npm's own record of what it installed
// (node_modules/.package-lock.json, written last) is the stamp: it is missing after an interrupted install and differs
// as soon as the lockfile changes.

import { existsSync, readFileSync, statSync } from "node:fs";
import { basename, join } from "node:path";
import { runTool } from "./tool.mjs";

function readJson(path) {
  try {
    return JSON.parse(readFileSync(path, "utf8"));
  } catch {
    return undefined;
  }
}

/** Whether node_modules matches the lockfile: the same versions, nothing required missing. */
export function isInstalled(folder) {
  const recordPath = join(folder, "node_modules", ".package-lock.json");
  const installed = readJson(recordPath)?.packages;
  if (installed === undefined) return false;
  const wanted = readJson(join(folder, "package-lock.json"))?.packages;
  if (wanted === undefined) return statSync(recordPath).mtimeMs >= statSync(join(folder, "package.json")).mtimeMs;
  return Object.entries(wanted).every(([path, entry]) => {
    if (path === "") return true;
    const found = installed[path];
    // Optional packages are mostly other platforms' binaries, which npm does not install.
    if (found === undefined) return entry.optional === true || entry.devOptional === true || entry.peer === true;
    return found.version === entry.version && existsSync(join(folder, path));
  });
}

/**
 * Whether the lockfile lists every optional package its packages name. One made against a registry that lacks some
 * platforms' binaries does not, and `npm ci` refuses it on every machine, even where those binaries are of no use.
 */
export function listsEveryOptional(lock) {
  const has = (path, name) => {
    for (let folder = path; ; folder = folder.slice(0, Math.max(0, folder.lastIndexOf("/node_modules/")))) {
      if (lock.packages[folder === "" ? `node_modules/${name}` : `${folder}/node_modules/${name}`] !== undefined)
        return true;
      if (folder === "") return false;
    }
  };
  return Object.entries(lock.packages).every(([path, entry]) =>
    Object.keys(entry.optionalDependencies ?? {}).every((name) => has(path, name)),
  );
}

/** The npm command that installs what the lockfile lists without writing to it. */
function verbFor(folder) {
  const lock = readJson(join(folder, "package-lock.json"));
  if (lock?.packages === undefined) return ["install", "--no-package-lock"];
  return listsEveryOptional(lock) ? ["ci"] : ["install", "--no-save"];
}

/** npm as a command and its first arguments: the npm that runs this script, if one does. */
export function npmCommand() {
  const running = process.env["npm_execpath"];
  // Under yarn or pnpm the variable names their program, which has no `ci`.
  if (running !== undefined && basename(running).startsWith("npm") && existsSync(running))
    return [process.execPath, [running]];
  return [process.platform === "win32" ? "npm.cmd" : "npm", []];
}

/**
 * The environment without the settings of an outer `npm pack --dry-run`, `npm install -g .` or `--omit=dev`: inherited,
 * they would make the inner install do nothing or install to another folder.
 */
function innerEnvironment() {
  const outerOnly =
    /^npm_config_(dry_run|global|location|omit|include|only|production|also|json|prefix|local_prefix|workspaces?|ignore_scripts|package_lock_only)$/i;
  const kept = Object.entries(process.env).filter(([name]) => !outerOnly.test(name));
  // The addon is built as a separate step afterwards.
  return { ...Object.fromEntries(kept), ROCMFORGE_ADDON: "later" };
}

/** Installs `folder` if necessary, and says so in one line. */
export async function install(folder, what) {
  if (isInstalled(folder)) return;
  const [command, prefix] = npmCommand();
  const verb = verbFor(folder);
  const flags = [
    "--include=dev",
    "--no-audit",
    "--no-fund",
    "--prefer-offline",
    "--fetch-retries=1",
    "--fetch-retry-mintimeout=1000",
  ];
  await runTool(`installing ${what} (npm ${verb[0]})`, command, [...prefix, ...verb, ...flags], {
    cwd: folder,
    env: innerEnvironment(),
    otherwise: `\`npm ${verb[0]}\` did not succeed; its last words are above`,
  });
}
