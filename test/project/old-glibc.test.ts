// The check that a prebuilt addon loads on older systems, and the libraries that it is linked against so that it does:
// with the real compiler, on libraries of a few lines.

import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { TemporaryFolder } from "../support/temporary-folder.js";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const LOADERS: Readonly<Record<string, string>> = { x64: "ld-linux-x86-64.so.2", arm64: "ld-linux-aarch64.so.1" };
const loader = process.platform === "linux" ? LOADERS[process.arch] : undefined;
const hasTools = loader !== undefined && spawnSync("g++", ["--version"]).status === 0;

interface Scripts {
  writeGlibcStubs(options: object): Promise<readonly string[]>;
  glibcProblems(path: string, limit: readonly number[]): readonly string[];
  readElf(path: string): { readonly needed: readonly string[] };
  glibcVersion(name: string): readonly number[] | undefined;
  compareVersions(left: readonly number[], right: readonly number[]): number;
}

async function load(name: string): Promise<Scripts> {
  return (await import(pathToFileURL(join(ROOT, "scripts", name)).href)) as Scripts;
}

const { writeGlibcStubs, glibcProblems } = await load("old-glibc.mjs");
const { readElf, glibcVersion, compareVersions } = await load("elf.mjs");
/** Older than any glibc that has `gettid` (2.30) and the merged threads (2.34), newer than everything else here. */
const LIMIT = [2, 28, 0];

const folder = new TemporaryFolder();
afterAll(() => folder[Symbol.dispose]());

function link(name: string, source: string, ...args: readonly string[]): string {
  const [code, library] = [folder.file(`${name}.cpp`), folder.file(`${name}.so`)];
  writeFileSync(code, source);
  const { status, stderr } = spawnSync("g++", ["-shared", "-fPIC", code, "-o", library, ...args], { encoding: "utf8" });
  if (status !== 0) throw new Error(stderr);
  return library;
}

describe("versions of glibc", () => {
  it("are read from their names and compared by their numbers", () => {
    expect(glibcVersion("GLIBC_2.2.5")).toEqual([2, 2, 5]);
    expect(glibcVersion("GLIBC_2.28")).toEqual(LIMIT);
    for (const other of ["GLIBC_PRIVATE", "GLIBCXX_3.4", "GCC_3.0"]) expect(glibcVersion(other)).toBeUndefined();
    expect(compareVersions([2, 9, 0], [2, 28, 0])).toBeLessThan(0);
    expect(compareVersions([2, 28, 0], [2, 28, 0])).toBe(0);
  });

  it("rejects a file that is no library", () => {
    expect(() => readElf(fileURLToPath(import.meta.url))).toThrow("is not a 64-bit little-endian ELF file");
  });
});

describe.skipIf(!hasTools)(
  `a library that is linked for older systems${hasTools ? "" : " (skipped: no g++ for Linux)"}`,
  () => {
    const THREADS = `#include <dlfcn.h>
#include <pthread.h>
#include <cmath>
extern "C" void start(pthread_once_t* once, void (*work)()) { pthread_once(once, work); dlopen(nullptr, RTLD_NOW); }
extern "C" double power(double value) { return std::exp(value); }`;
    let stubs: readonly string[] = [];
    beforeAll(async () => {
      stubs = await writeGlibcStubs({ compiler: "g++", loader, limit: LIMIT, folder: folder.file("stubs") });
    });

    it("needs no newer symbols, and no C++ library", () => {
      const library = link("old", THREADS, "-static-libstdc++", "-static-libgcc", ...stubs);
      expect(glibcProblems(library, LIMIT)).toEqual([]);
      expect(readElf(library).needed).toEqual(expect.arrayContaining(["libc.so.6", "libdl.so.2", "libpthread.so.0"]));
    });

    it("rejects the same library with a lower limit, and a function that is newer than the limit", () => {
      const library = link("new", `extern "C" int gettid(); extern "C" int own() { return gettid(); }`, ...stubs);
      expect(glibcProblems(library, LIMIT)).toEqual(["needs gettid, which no library offers"]);
      const old = link("lower", THREADS, "-static-libstdc++", "-static-libgcc", ...stubs);
      expect(glibcProblems(old, [2, 2, 0]).some((problem) => problem.includes("needs pthread_once@GLIBC_2."))).toBe(
        true,
      );
    });

    it("rejects a library that was linked with the system's own", () => {
      const library = link("plain", `#include <string>\nstd::string text() { return std::to_string(1); }`);
      expect(glibcProblems(library, LIMIT)).toContain("needs libstdc++.so.6");
    });
  },
);
