// Compiles the test programs of native/cpu/test with every kernel and the engine, under sanitizers, and runs them.
// Objects and programs are kept in .cache/native-test by the content of everything they are made of, so only what has
// changed is compiled again. `host` is this machine; `aarch64` is cross-compiled and runs under qemu-user.

import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { basename, dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { brotliDecompressSync } from "node:zlib";
import { isRunning, runProgram, ScriptError } from "./tool.mjs";

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
export const NATIVE = join(ROOT, "native", "cpu");
const CACHE = join(ROOT, ".cache", "native-test");
/** Precompiled for the engine and the tests, not for kernels, which include nearly nothing. */
const STANDARD_LIBRARY = join(NATIVE, "test", "standard-library.h");
/** The time after which a hanging program is ended. */
const RUN_LIMIT_MS = 5 * 60_000;
/** The longest takes a quarter of this on a busy machine. */
const EMULATED_RUN_LIMIT_MS = 20 * 60_000;

const GOLDEN_BLOCKS = join(ROOT, "test", "fixtures", "golden", "dequantize.jsonl.br");
/** What a test program is given on its command line. */
const ARGUMENTS = { "matmul-test": () => [goldenBlocks()] };

// Under sanitizers -O1 takes minutes for the matmuls and -O0 makes the tests run for minutes; -Og does neither.
const COMMON = [
  "-std=c++17",
  "-Og",
  "-g1",
  "-fno-math-errno",
  "-ffp-contract=off",
  "-fvisibility=hidden",
  "-Wall",
  "-Wextra",
  "-pthread",
];
const SANITIZED = ["-fno-omit-frame-pointer", "-fno-sanitize-recover=all"];

/** The flags of binding.gyp; test/project/native-build.test.ts compares the two. */
export const ISA_FLAGS = {
  avx512: ["-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq", "-mavx512vnni", "-mfma", "-mf16c", "-mavx2"],
  avx2: ["-mavx2", "-mfma", "-mf16c"],
  neon: ["-march=armv8.2-a+dotprod+fp16"],
  portable: [],
};

const HOST_ISAS = { x64: ["avx512", "avx2", "portable"], arm64: ["neon", "portable"] };

export const TARGETS = {
  host: {
    compiler: process.env["CXX"] ?? "g++",
    archiver: "ar",
    isas: HOST_ISAS[process.arch] ?? ["portable"],
    flags: [...COMMON, ...SANITIZED, "-fsanitize=address,undefined"],
    runner: [],
    runLimitMs: RUN_LIMIT_MS,
  },
  // AddressSanitizer's shadow memory does not fit qemu-user's address space.
  aarch64: {
    compiler: "aarch64-linux-gnu-g++",
    archiver: "aarch64-linux-gnu-ar",
    isas: ["neon", "portable"],
    flags: [...COMMON, ...SANITIZED, "-fsanitize=undefined", "-static-libubsan"],
    runner: ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"],
    runLimitMs: EMULATED_RUN_LIMIT_MS,
  },
};

/** Sources under test/ by kind: programs have a `main`, helpers are linked to the programs that need them. */
function testSources() {
  const folder = join(NATIVE, "test");
  const names = existsSync(folder)
    ? readdirSync(folder).filter((name) => name.endsWith(".cpp") && !name.endsWith("-bench.cpp"))
    : [];
  const isProgram = (name) => /^int main\(/m.test(readFileSync(join(folder, name), "utf8"));
  return { programs: names.filter(isProgram).toSorted(), helpers: names.filter((name) => !isProgram(name)) };
}

/** Names of the test programs: native/cpu/test/NAME.cpp. */
export function nativeTestNames() {
  return testSources().programs.map((name) => name.slice(0, -".cpp".length));
}

/** The tool that a target needs and this machine lacks; undefined if there is none. */
export async function missingTool(target) {
  const { compiler, runner } = TARGETS[target];
  for (const program of [compiler, ...runner.slice(0, 1)]) {
    const found = await runProgram(program, ["--version"]).catch(() => undefined);
    if (found?.exitCode !== 0) return program;
  }
  return undefined;
}

/** The file and everything that it includes in quotes, each once. */
function withIncludes(path, seen = new Set()) {
  if (seen.has(path)) return seen;
  seen.add(path);
  for (const [, name] of readFileSync(path, "utf8").matchAll(/^\s*#\s*include\s+"([^"]+)"/gm)) {
    const found = [resolve(dirname(path), name), join(NATIVE, name)].find((candidate) => existsSync(candidate));
    if (found !== undefined) withIncludes(found, seen);
  }
  return seen;
}

function keyOf(parts) {
  const hash = createHash("sha256");
  for (const part of parts) hash.update(part).update("\0");
  return hash.digest("hex").slice(0, 32);
}

/** The C++ sources of a folder of native/cpu, if it exists. */
function sourcesIn(folder) {
  const path = join(NATIVE, folder);
  const names = existsSync(path) ? readdirSync(path) : [];
  return names.filter((name) => name.endsWith(".cpp")).map((name) => join(folder, name));
}

/** What the test programs take from an archive: kernels with their instruction set's flags, the engine, the tests' helpers. */
function unitsOf(target) {
  const kernels = TARGETS[target].isas.flatMap((isa) =>
    ["matmul", "rows"].map((part) => ({
      source: join(NATIVE, "kernels", `isa-${isa}-${part}.cpp`),
      flags: ISA_FLAGS[isa],
    })),
  );
  return [
    ...kernels,
    ...sourcesIn("engine").map((path) => plainUnit(target, path)),
    ...testSources().helpers.map((name) => plainUnit(target, join("test", name))),
  ];
}

/** Linked as objects: instructions register themselves, so nothing would take them from an archive. */
function instructionUnits(target) {
  return sourcesIn("instructions").map((path) => plainUnit(target, path));
}

/** Code that runs on every instruction set and is told by defines which kernels exist. */
function plainUnit(target, path) {
  return {
    source: join(NATIVE, path),
    flags: TARGETS[target].isas.map((isa) => `-DROCMFORGE_HAS_${isa.toUpperCase()}`),
    header: existsSync(STANDARD_LIBRARY) ? STANDARD_LIBRARY : undefined,
  };
}

class Compilation {
  constructor(target, version) {
    this.target = target;
    this.version = version;
    this.folder = join(CACHE, target);
    this.used = new Set();
    /** Being precompiled, by key. */
    this.headers = {};
    mkdirSync(this.folder, { recursive: true });
  }

  /** The file for this key, built by `make(temporaryPath)` if it does not exist; complete or absent. */
  async cached(key, extension, make) {
    const path = join(this.folder, `${key}${extension}`);
    this.used.add(basename(path));
    if (existsSync(path)) return path;
    const temporary = `${path}-${process.pid}`;
    try {
      await make(temporary);
      renameSync(temporary, path);
    } finally {
      rmSync(temporary, { force: true });
    }
    return path;
  }

  async object({ source, flags, header }) {
    const { compiler, flags: common } = TARGETS[this.target];
    const files = [...withIncludes(source)].toSorted();
    const all = [...common, ...flags];
    const key = keyOf([this.version, ...all, ...files.flatMap((file) => [relative(NATIVE, file), readFileSync(file)])]);
    const precompiled = header === undefined ? [] : ["-include", await this.precompiled(header, all)];
    return await this.cached(key, ".o", (path) =>
      this.tool(compiler, [...all, ...precompiled, `-I${NATIVE}`, "-c", source, "-o", path], source),
    );
  }

  /** A copy of the header with its compiled form beside it, where compilers look for it. */
  precompiled(header, flags) {
    const text = readFileSync(header);
    const key = keyOf([this.version, ...flags, text]);
    const { compiler } = TARGETS[this.target];
    this.headers[key] ??= this.cached(key, ".h", async (path) => writeFileSync(path, text)).then(async (copy) => {
      await this.cached(key, ".h.gch", (path) =>
        this.tool(compiler, [...flags, "-x", "c++-header", copy, "-o", path], header),
      );
      return copy;
    });
    return this.headers[key];
  }

  /** An archive, so that a test's own replacement of a unit takes precedence. */
  async archive(objects) {
    return await this.cached(keyOf(objects), ".a", (path) =>
      this.tool(TARGETS[this.target].archiver, ["rcs", path, ...objects], "the archive of kernels"),
    );
  }

  async program(name, objects, archive) {
    const { compiler, flags } = TARGETS[this.target];
    const key = keyOf([name, this.version, ...flags, ...objects, archive]);
    return await this.cached(key, `-${name}`, (path) =>
      this.tool(compiler, [...flags, ...objects, archive, "-o", path], name),
    );
  }

  async tool(command, args, what) {
    const { exitCode, output } = await runProgram(command, args);
    if (exitCode !== 0)
      throw new ScriptError(`${relative(ROOT, what)} does not compile for ${this.target}`, {
        tail: output.slice(-6000),
      });
  }

  /** Removes cache entries that neither today's sources nor a running build need. */
  removeUnused() {
    for (const name of readdirSync(this.folder)) {
      const writer = /-(\d+)$/.exec(name)?.[1];
      const isBeingWritten = writer !== undefined && isRunning(Number(writer));
      if (!this.used.has(name) && !isBeingWritten) rmSync(join(this.folder, name), { force: true });
    }
  }
}

/** Runs `work` over the items, a few at a time, and ends with the first failure. */
export async function inParallel(items, limit, work) {
  const results = [];
  let next = 0;
  const worker = async () => {
    while (next < items.length) {
      const index = next++;
      try {
        results[index] = await work(items[index]);
      } catch (error) {
        next = items.length;
        throw error;
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(limit, items.length) }, worker));
  return results;
}

/** @returns {Promise<ReadonlyMap<string, string>>} the path of each test program */
export async function buildNativeTests(target, names = nativeTestNames()) {
  const { output: version } = await runProgram(TARGETS[target].compiler, ["--version"]);
  const compilation = new Compilation(target, version);
  const units = unitsOf(target);
  const instructions = instructionUnits(target);
  const jobs = availableParallelism();
  // The largest first: kernels before the engine.
  const objects = await inParallel(
    [...units, ...instructions, ...names.map((name) => plainUnit(target, join("test", `${name}.cpp`)))],
    jobs,
    (unit) => compilation.object(unit),
  );
  const archive = await compilation.archive(objects.slice(0, units.length));
  const registered = objects.slice(units.length, units.length + instructions.length);
  const tests = objects
    .slice(units.length + instructions.length)
    .map((object, index) => ({ name: names[index], object }));
  const programs = await inParallel(tests, jobs, async ({ name, object }) => [
    name,
    await compilation.program(name, [object, ...registered], archive),
  ]);
  if (names.length === nativeTestNames().length) compilation.removeUnused();
  return new Map(programs);
}

/** The path of the golden blocks, unpacked. */
function goldenBlocks() {
  const path = join(CACHE, "dequantize.jsonl");
  writeFileSync(path, brotliDecompressSync(readFileSync(GOLDEN_BLOCKS)));
  return path;
}

/** @returns {Promise<{ exitCode: number, output: string }>} */
export async function runNativeTest(target, name, program) {
  const [command, ...args] = [...TARGETS[target].runner, program, ...(ARGUMENTS[name]?.() ?? [])];
  const { exitCode, output, timedOut } = await runProgram(command, args, { timeoutMs: TARGETS[target].runLimitMs });
  return { exitCode: timedOut ? 124 : exitCode, output };
}

/**
 * The symbols that each kernel unit exports to the linker. An inline function among them would be shared between
 * instruction sets: the linker keeps one copy, and a machine without AVX-512 might run that one.
 */
export async function kernelSymbols(target) {
  const { output: version } = await runProgram(TARGETS[target].compiler, ["--version"]);
  const compilation = new Compilation(target, version);
  const kernels = unitsOf(target).filter(({ source }) => basename(source).startsWith("isa-"));
  const listed = await inParallel(kernels, availableParallelism(), async (unit) => {
    const { output } = await runProgram("nm", [
      "--demangle",
      "--defined-only",
      "--extern-only",
      "--format=posix",
      await compilation.object(unit),
    ]);
    const symbols = output
      .trim()
      .split("\n")
      .map((line) => line.replace(/ [A-Za-z] [0-9a-f]+.*$/, ""));
    // The compiler's own references are data without code.
    return [basename(unit.source, ".cpp"), symbols.filter((name) => !name.startsWith("DW.ref."))];
  });
  return new Map(listed);
}
