// Builds the test double of the HIP runtime (test/gpu/emulator) once for each state of its sources, and prints its path:
//   ROCMFORGE_HIP_LIBRARY=$(node scripts/build-emulator.mjs) npx rocmforge devices
// Safe when several do it at once: each works in a folder of its own, and one at a time. Where it cannot be built for want
// of a compiler or of Linux, the exit status is 3 and the reason is on stderr.

import { createHash } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { withBuildLock } from "./build-lock.mjs";
import { main, runProgram, say, ScriptError } from "./tool.mjs";

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const SOURCES = join(ROOT, "test", "gpu", "emulator");
const BUILDS = join(ROOT, ".cache", "hip-emulator");
const LIBRARY_NAME = "libamdhip64-emulator.so";
const LOCK = join(BUILDS, "lock");
const COMPILE_LIMIT_MS = 5 * 60_000;
/** Longer than any build. */
const LOCK_LIMIT_MS = 2 * COMPILE_LIMIT_MS;
/** How many builds of earlier sources are kept, for checkouts that switch back and forth. */
const KEPT_BUILDS = 4;
export const CANNOT_BUILD = 3;

const OPTIONS = [
  "-std=c++17",
  "-O2",
  "-fPIC",
  "-fvisibility=hidden",
  "-fno-omit-frame-pointer",
  "-pthread",
  "-Wall",
  "-Wextra",
];
// Jumping out of a signal handler switches stacks, which the checked version takes for an attack.
const UNCHECKED = ["-U_FORTIFY_SOURCE"];

async function findCompiler() {
  if (process.platform !== "linux")
    throw new ScriptError(`the HIP emulator runs on Linux only, and this is ${process.platform}`, {
      exitCode: CANNOT_BUILD,
    });
  if (!["x64", "arm64"].includes(process.arch))
    throw new ScriptError(`the HIP emulator does not know ${process.arch}`, { exitCode: CANNOT_BUILD });
  const named = process.env["CXX"];
  for (const compiler of named === undefined || named === "" ? ["g++", "clang++", "c++"] : [named]) {
    const version = await runProgram(compiler, ["--version"]).catch(() => undefined);
    if (version?.exitCode === 0) return { compiler, version: version.output.split("\n")[0] };
  }
  throw new ScriptError("no C++ compiler was found (CXX, g++, clang++): on Debian, apt-get install g++", {
    exitCode: CANNOT_BUILD,
  });
}

function sourceNames(ending) {
  return readdirSync(SOURCES)
    .filter((name) => name.endsWith(ending))
    .toSorted();
}

function hashOf(version) {
  const hash = createHash("sha256").update(
    `${version}\0${SOURCES}\0${readFileSync(fileURLToPath(import.meta.url), "utf8")}\0`,
  );
  for (const name of [...sourceNames(".cpp"), ...sourceNames(".h")])
    hash
      .update(`${name}\0`)
      .update(readFileSync(join(SOURCES, name)))
      .update("\0");
  return hash.digest("hex");
}

async function compile(compiler, hash) {
  const folder = mkdtempSync(join(BUILDS, "unfinished-"));
  const definitions = [
    `-DEMULATOR_FOLDER="${SOURCES}"`,
    // Compiled kernels are kept in the build's own folder: they end with it, and those of other sources are not met there.
    `-DEMULATOR_LIBRARIES="${join(BUILDS, hash, "kernels")}"`,
    `-DEMULATOR_SOURCE_HASH=0x${hash.slice(0, 8)}u`,
  ];
  const run = async (args) => {
    const { exitCode, output } = await runProgram(compiler, args, { timeoutMs: COMPILE_LIMIT_MS });
    if (exitCode !== 0) throw new ScriptError("the HIP emulator does not compile", { tail: output.trimEnd() });
  };
  try {
    // As one file: reading the standard library's headers for each takes ten times as long as all the rest.
    const all = join(folder, "emulator.cpp");
    writeFileSync(
      all,
      sourceNames(".cpp")
        .map((name) => `#include "${join(SOURCES, name)}"\n`)
        .join(""),
    );
    await run([
      ...OPTIONS,
      ...UNCHECKED,
      ...definitions,
      all,
      "-shared",
      "-Wl,-Bsymbolic",
      "-Wl,-z,defs",
      "-o",
      join(folder, LIBRARY_NAME),
      "-ldl",
    ]);
    rmSync(all);
    renameSync(folder, join(BUILDS, hash));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function dropOldBuilds(current) {
  const builds = readdirSync(BUILDS, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && entry.name !== current)
    .map(({ name }) => ({ path: join(BUILDS, name), usedMs: statSync(join(BUILDS, name)).mtimeMs }))
    .toSorted((left, right) => right.usedMs - left.usedMs);
  for (const { path } of builds.slice(KEPT_BUILDS)) rmSync(path, { recursive: true, force: true });
}

await main(async () => {
  const { compiler, version } = await findCompiler();
  const hash = hashOf(version);
  const library = join(BUILDS, hash, LIBRARY_NAME);
  mkdirSync(BUILDS, { recursive: true });
  if (!existsSync(library)) {
    await withBuildLock(LOCK, { limitMs: LOCK_LIMIT_MS }, async () => {
      if (existsSync(library)) return;
      say("building the HIP emulator");
      await compile(compiler, hash);
      dropOldBuilds(hash);
    });
  }
  process.stdout.write(`${library}\n`);
});
