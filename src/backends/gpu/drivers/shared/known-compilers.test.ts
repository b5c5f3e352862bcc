// Compilers that are known without being loaded, and all that makes them unknown again.

import { mkdirSync, renameSync, symlinkSync, unlinkSync, utimesSync, writeFileSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { TemporaryFolder } from "../../../../../test/support/temporary-folder.js";
import { libraryFileAt } from "./ffi.js";
import { type KnownCompiler, recallCompiler, rememberCompiler } from "./known-compilers.js";

const WANTED = {
  what: "a compiler",
  variable: "ROCMFORGE_TEST_COMPILER",
  names: ["libcompiler.so.2", "libcompiler.so"],
  remedy: "none",
};

/** In seconds. */
const LONG_AGO = 1_000_000_000;

let folder: TemporaryFolder;
let library: string;
let cache: string;
beforeEach(() => {
  folder = new TemporaryFolder();
  library = folder.file("libcompiler.so.2.1");
  cache = folder.file("cache");
  writeFileSync(library, "the library");
});
afterEach(() => {
  vi.unstubAllEnvs();
  folder[Symbol.dispose]();
});

function remember(name = "libcompiler.so.2"): KnownCompiler {
  const file = libraryFileAt(library);
  if (file === undefined) throw new TypeError("there is no library");
  const compiler = { library: name, version: "2.1", file };
  rememberCompiler(WANTED, compiler, cache);
  return compiler;
}

describe("a compiler that was loaded before", () => {
  it("is known, and one that was not is not", () => {
    expect(recallCompiler(WANTED, cache)).toBeUndefined();
    const compiler = remember();
    expect(recallCompiler(WANTED, cache)).toEqual(compiler);
    expect(recallCompiler({ ...WANTED, names: ["libcompiler.so"] }, cache)).toBeUndefined();
  });

  it("is not known when its file has changed, or is gone", () => {
    remember();
    utimesSync(library, LONG_AGO, LONG_AGO);
    expect(recallCompiler(WANTED, cache)).toBeUndefined();
    remember();
    writeFileSync(library, "another library");
    utimesSync(library, LONG_AGO, LONG_AGO);
    expect(recallCompiler(WANTED, cache)).toBeUndefined();
    remember();
    unlinkSync(library);
    expect(recallCompiler(WANTED, cache)).toBeUndefined();
  });

  it("is not known when its name leads to another file", () => {
    const link = folder.file("libcompiler.so.2");
    symlinkSync(library, link);
    remember(link);
    expect(recallCompiler(WANTED, cache)).toBeDefined();
    writeFileSync(folder.file("libcompiler.so.2.2"), "the library");
    unlinkSync(link);
    symlinkSync(folder.file("libcompiler.so.2.2"), link);
    expect(recallCompiler(WANTED, cache)).toBeUndefined();
  });

  it("is not known when the loader looks elsewhere, or for another", () => {
    remember();
    vi.stubEnv(WANTED.variable, library);
    expect(recallCompiler(WANTED, cache)).toBeUndefined();
    vi.stubEnv(WANTED.variable, "");
    expect(recallCompiler(WANTED, cache)).toBeDefined();
    const other = folder.file("other");
    mkdirSync(other);
    vi.stubEnv("LD_LIBRARY_PATH", other);
    expect(recallCompiler(WANTED, cache)).toBeUndefined();
    utimesSync(other, LONG_AGO, LONG_AGO);
    remember();
    expect(recallCompiler(WANTED, cache)).toBeDefined();
    writeFileSync(folder.file("new"), "");
    renameSync(folder.file("new"), `${other}/libcompiler.so.2`);
    expect(recallCompiler(WANTED, cache)).toBeUndefined();
  });

  it.each(["", "{", "[]", "null", '"text"', "7"])("is not known from a file that holds %j", (text) => {
    remember();
    writeFileSync(`${cache}/compilers.json`, text);
    expect(recallCompiler(WANTED, cache)).toBeUndefined();
    remember();
    expect(recallCompiler(WANTED, cache)).toBeDefined();
  });

  it("costs a load at each start where nothing can be written", () => {
    writeFileSync(cache, "a file and no folder");
    remember();
    expect(recallCompiler(WANTED, cache)).toBeUndefined();
  });

  it("is among the last few that are kept", () => {
    remember();
    for (let other = 0; other < 20; other++) {
      rememberCompiler(
        { ...WANTED, names: [`lib${other}.so`] },
        { library: "x", version: "1", file: { path: library, sizeBytes: 1, modifiedMs: 1 } },
        cache,
      );
    }
    expect(recallCompiler(WANTED, cache)).toBeUndefined();
  });
});
