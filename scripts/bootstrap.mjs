// Prepares a clone for its scripts: the right Node, packages installed, dist/ and the native addon built. Invariants:
// does nothing that is already done; a failed build keeps the old dist/; a machine that cannot build the addon gets a
// message and continues without it.

import { createHash } from "node:crypto";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { addonSourceHash, buildAddon, findAddon, hasAddonSources, recordedFailure } from "./addon.mjs";
import { buildPage } from "./build-page.mjs";
import { bundleCommandLine } from "./bundle-cli.mjs";
import { bundlePackages, packagesOf, writeNotices } from "./bundle-packages.mjs";
import { install } from "./install.mjs";
import { isRunning, runTool, say, ScriptError, step } from "./tool.mjs";

export const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
export const COMMAND_LINE = join(ROOT, "dist", "cli", "main.js");

const OLDEST_NODE = [20, 19];
/** In the checkout and not in node_modules, which several checkouts may share, each with its own dist/. */
const CACHE = join(ROOT, ".cache");
const BUILD_STAMP = join(CACHE, "build-stamp");

export function checkNode(version = process.versions.node) {
  const [major, minor] = version.split(".").map(Number);
  if (major > OLDEST_NODE[0] || (major === OLDEST_NODE[0] && minor >= OLDEST_NODE[1])) return;
  throw new ScriptError(
    `Node ${OLDEST_NODE.join(".")} or newer is needed and this is ${version} (${process.execPath}): install a newer one from your package manager or with \`nvm install 20\``,
  );
}

/** Everything the build reads, by content: a checkout or a copy changes times without changing anything. */
function sourceHash() {
  const hash = createHash("sha256");
  const folders = ["src", "page"].filter((folder) => existsSync(join(ROOT, folder)));
  const sources = folders.flatMap((folder) =>
    readdirSync(join(ROOT, folder), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(relative(ROOT, entry.parentPath), entry.name)),
  );
  const bindings = join("native", "cpu", "index.d.ts");
  const bundlers = ["bundle-cli", "bundle-packages", "build-page"].map((name) => join("scripts", `${name}.mjs`));
  const configuration = ["package.json", "package-lock.json", "tsconfig.json", "tsconfig.build.json"];
  const files = [...configuration, bindings, ...bundlers, ...sources];
  for (const name of files.toSorted()) {
    if (name.endsWith(".test.ts") || (name.startsWith("src") && !name.endsWith(".ts"))) continue;
    if (!existsSync(join(ROOT, name))) continue;
    hash
      .update(name)
      .update("\0")
      .update(readFileSync(join(ROOT, name)))
      .update("\0");
  }
  return hash.digest("hex");
}

function isBuilt(hash) {
  if (!existsSync(join(ROOT, "dist")) || !existsSync(BUILD_STAMP)) return false;
  return readFileSync(BUILD_STAMP, "utf8") === hash;
}

/** Removes leftovers of builds that were killed; a running build is recognised by its process id. */
function removeLeftovers() {
  for (const name of readdirSync(CACHE)) {
    const pid = /^dist-(?:new|old)-(\d+)$/.exec(name)?.[1];
    if (pid === undefined || isRunning(Number(pid))) continue;
    rmSync(join(CACHE, name), { recursive: true, force: true });
  }
}

/** Compiles into a temporary folder and swaps it in only when it is complete. */
export async function build() {
  mkdirSync(CACHE, { recursive: true });
  removeLeftovers();
  const dist = join(ROOT, "dist");
  const fresh = join(CACHE, `dist-new-${process.pid}`);
  const old = join(CACHE, `dist-old-${process.pid}`);
  const hash = sourceHash();
  try {
    await runTool(
      "building dist/ (tsc -p tsconfig.build.json)",
      process.execPath,
      [compilerPath(), "-p", "tsconfig.build.json", "--outDir", fresh],
      {
        cwd: ROOT,
        otherwise: "the sources do not compile; the errors are above, and dist/ is as it was",
      },
    );
    const packages = await bundlePackages(ROOT, fresh);
    const command = join(fresh, "cli", "main.js");
    if (existsSync(command)) {
      await step("bundling the command line (esbuild)", () => bundleCommandLine(ROOT, fresh));
      chmodSync(command, 0o755);
    }
    const modules = existsSync(join(ROOT, "page"))
      ? await step("building the chat page (vite)", () => buildPage(ROOT, join(fresh, "page")))
      : [];
    writeNotices(ROOT, fresh, [...new Set([...packages, ...packagesOf(modules)])].toSorted());
    rmSync(BUILD_STAMP, { force: true });
    if (existsSync(dist)) renameSync(dist, old);
    renameSync(fresh, dist);
    writeFileSync(BUILD_STAMP, hash);
  } finally {
    rmSync(fresh, { recursive: true, force: true });
    rmSync(old, { recursive: true, force: true });
  }
}

/** TypeScript's own launcher, run with this Node rather than through a shell script. */
export function compilerPath() {
  return join(ROOT, "node_modules", "typescript", "bin", "tsc");
}

export async function ensureInstalled() {
  checkNode();
  await install(ROOT, "packages");
}

/**
 * Builds the addon of these sources if it is not there. A compiler that failed on them would fail again, so only
 * `persistent` callers try again.
 * @returns {Promise<"ready" | "no tools" | "broken sources">}
 */
async function ensureAddon({ persistent }) {
  if (!hasAddonSources() || (await findAddon()) !== undefined) return "ready";
  const earlier = recordedFailure();
  const known = !persistent && earlier?.kind === "sources" && earlier.sources === addonSourceHash();
  const { failure } = known
    ? { failure: earlier }
    : await step("building the native addon (native/cpu)", () => buildAddon());
  if (failure === undefined) return "ready";
  if (failure.kind === "sources" && !known) process.stderr.write(`${failure.tail}\n`);
  say(`warning: there is no native addon, so the backend cpu is not available: ${failure.reason}; ${failure.remedy}`);
  return failure.kind === "sources" ? "broken sources" : "no tools";
}

/** Packages and dist/, without the addon. */
export async function bootstrapBuild() {
  await ensureInstalled();
  if (!isBuilt(sourceHash())) await build();
}

/** Returns the state of the addon, for callers to which broken sources are a failure. */
export async function bootstrap({ persistent = false } = {}) {
  await ensureInstalled();
  const addon = await ensureAddon({ persistent });
  if (!isBuilt(sourceHash())) await build();
  return { addon };
}
