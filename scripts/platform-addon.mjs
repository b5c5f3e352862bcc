// Builds the addon that a platform's package carries, with the platform's compiler and without node-gyp: Node-API's
// headers come from npm, so neither the version of Node nor its headers matter. Objects are kept in
// .cache/platform-addons by the content of all sources, since one changed header changes most of them.

import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { availableParallelism } from "node:os";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { addonSourceHash, ADDON_NAME } from "./addon.mjs";
import { OLDEST_GLIBC, PLATFORMS } from "./addon-platforms.mjs";
import { withBuildLock } from "./build-lock.mjs";
import { inParallel, ISA_FLAGS } from "./native-tests.mjs";
import { glibcProblems, writeGlibcStubs } from "./old-glibc.mjs";
import { runProgram, ScriptError } from "./tool.mjs";

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const NATIVE = join(ROOT, "native", "cpu");
const CACHE = join(ROOT, ".cache", "platform-addons");
/** Only in prebuilt addons; binding.gyp does not know this folder. */
const PLATFORM_SOURCES = join(NATIVE, "platform");

/** The flags of binding.gyp; test/project/native-build.test.ts compares the two. */
export const ADDON_FLAGS = [
  "-O3",
  "-std=c++17",
  "-fexceptions",
  "-fno-math-errno",
  "-ffp-contract=off",
  "-fvisibility=hidden",
  "-fvisibility-inlines-hidden",
  "-Wall",
  "-Wextra",
];
const PORTABLE_FLAGS = ["-O2"];
/** Longer than any build. */
const LOCK_LIMIT_MS = 30 * 60_000;
const DEFINES = ["-DNAPI_VERSION=8", "-DNODE_API_SWALLOW_UNTHROWABLE_EXCEPTIONS", "-DNDEBUG"];

function sourcesIn(folder) {
  return readdirSync(join(NATIVE, folder))
    .filter((name) => name.endsWith(".cpp"))
    .map((name) => join(NATIVE, folder, name));
}

/** Every unit with its flags, the ones that take longest first. */
function unitsFor(platform) {
  const { isas, glibcLoader } = PLATFORMS[platform];
  const kernels = isas.flatMap((isa) =>
    ["matmul", "rows"].map((part) => ({
      source: join(NATIVE, "kernels", `isa-${isa}-${part}.cpp`),
      flags: isa === "portable" ? PORTABLE_FLAGS : ISA_FLAGS[isa],
    })),
  );
  const require = createRequire(join(ROOT, "package.json"));
  const headers = [
    dirname(require.resolve("node-addon-api/napi.h")),
    join(dirname(require.resolve("node-api-headers/package.json")), "include"),
  ].map((folder) => `-isystem${folder}`);
  const shared = isas.filter((isa) => isa !== "portable").map((isa) => `-DROCMFORGE_HAS_${isa.toUpperCase()}`);
  const plain = ["engine", "instructions", "binding"].flatMap(sourcesIn);
  return [
    ...kernels,
    ...plain.map((source) => ({ source, flags: [...shared, ...DEFINES, ...headers, `-I${NATIVE}`] })),
    ...(glibcLoader === undefined ? [] : [{ source: join(PLATFORM_SOURCES, "old-glibc.cpp"), flags: [] }]),
  ];
}

async function tool(command, args, what) {
  const { exitCode, output } = await runProgram(command, args);
  if (exitCode !== 0) throw new ScriptError(what, { tail: output.slice(-6000) });
}

/** The C++ library of the compiler that links, for one that has none of its own for this platform. */
async function libraryHeaders({ linker }) {
  if (linker === undefined) return [];
  const { output } = await runProgram(linker, ["-print-file-name=include"]);
  const folder = join(output.trim(), "c++");
  return [folder, join(folder, "x86_64-w64-mingw32"), join(folder, "backward")].flatMap((path) => ["-isystem", path]);
}

async function compileUnits(platform, folder) {
  const { compiler, flags } = PLATFORMS[platform];
  const common = [...flags, ...(await libraryHeaders(PLATFORMS[platform]))];
  const { output: version } = await runProgram(compiler, ["--version"]);
  const sources = addonSourceHash(platform) + readFileSync(join(PLATFORM_SOURCES, "old-glibc.cpp"), "utf8");
  return await inParallel(unitsFor(platform), availableParallelism(), async ({ source, flags: own }) => {
    const all = [...ADDON_FLAGS, ...common, ...own];
    const key = createHash("sha256")
      .update([version, sources, source, ...all].join("\0"))
      .digest("hex")
      .slice(0, 24);
    const path = join(folder, `${basename(source, ".cpp")}-${key}.o`);
    if (existsSync(path)) return path;
    const temporary = `${path}-${process.pid}`;
    try {
      await tool(compiler, [...all, "-c", source, "-o", temporary], `${source} does not compile for ${platform}`);
      renameSync(temporary, path);
    } finally {
      rmSync(temporary, { force: true });
    }
    return path;
  });
}

/** The linker's arguments after the objects. */
async function libraries(platform, folder) {
  const { compiler, glibcLoader } = PLATFORMS[platform];
  if (glibcLoader !== undefined) {
    const stubs = await writeGlibcStubs({
      compiler,
      loader: glibcLoader,
      limit: OLDEST_GLIBC,
      folder: join(folder, "glibc"),
    });
    return [
      "-static-libstdc++",
      "-static-libgcc",
      `-Wl,--version-script=${join(PLATFORM_SOURCES, "exports.map")}`,
      "-Wl,--gc-sections,-z,relro,-z,now",
      ...stubs,
    ];
  }
  const names = join(
    dirname(createRequire(join(ROOT, "package.json")).resolve("node-api-headers/package.json")),
    "def",
  );
  const imports = join(folder, "libnode.a");
  const definition = join(folder, "node.def");
  // One list of what node.exe exports: the part of Node and the part that every engine has.
  const exported = ["node_api.def", "js_native_api.def"].map((name) =>
    readFileSync(join(names, name), "utf8").replace(/^(?:NAME|EXPORTS).*\r?\n/gm, ""),
  );
  writeFileSync(definition, `NAME node.exe\nEXPORTS\n${exported.join("\n")}`);
  await tool(
    "x86_64-w64-mingw32-dlltool",
    ["-m", "i386:x86-64", "-k", "-d", definition, "-l", imports],
    "Node's import library could not be written",
  );
  return ["-static", imports];
}

/**
 * Builds the addon of a platform, or throws with the compiler's words.
 * @param {string} platform a key of PLATFORMS
 * @returns {Promise<{ addon: string, hash: string }>} the file, and the hash of its sources
 */
export async function buildPlatformAddon(platform) {
  const folder = join(CACHE, platform);
  mkdirSync(folder, { recursive: true });
  return await withBuildLock(join(folder, "lock"), { limitMs: LOCK_LIMIT_MS }, () => buildIn(folder, platform));
}

async function buildIn(folder, platform) {
  const { compiler, linker = compiler, glibcLoader } = PLATFORMS[platform];
  const objects = await compileUnits(platform, folder);
  const linked = await libraries(platform, folder);
  const addon = join(folder, ADDON_NAME);
  const fresh = join(folder, `new-${ADDON_NAME}`);
  await tool(
    linker,
    ["-shared", "-s", ...objects, ...linked, "-o", fresh],
    `the addon cannot be linked for ${platform}`,
  );
  if (glibcLoader !== undefined) {
    const problems = glibcProblems(fresh, OLDEST_GLIBC);
    if (problems.length > 0)
      throw new ScriptError(`the addon for ${platform} would not load on older systems: ${problems.join("; ")}`);
  }
  // Another script may be copying the old one.
  renameSync(fresh, addon);
  for (const name of readdirSync(folder))
    if (name.endsWith(".o") && !objects.includes(join(folder, name))) rmSync(join(folder, name), { force: true });
  return { addon, hash: addonSourceHash(platform) };
}
