import { mkdirSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { describe, expect, it } from "vitest";
import { TemporaryFolder } from "../../../../test/support/temporary-folder.js";
import { GpuError } from "../../../errors.js";
import { kernelFiles, loadKernelSource } from "./kernel-source.js";

function sourceOf(files: Readonly<Record<string, string>>, name = "main"): ReturnType<typeof loadKernelSource> {
  using folder = new TemporaryFolder();
  for (const [file, text] of Object.entries(files)) {
    mkdirSync(dirname(folder.file(file)), { recursive: true });
    writeFileSync(folder.file(file), text);
  }
  return loadKernelSource(name, folder.path);
}

describe("loadKernelSource", () => {
  it("puts headers in place, each once, and numbers the lines as the files do", () => {
    const { text } = sourceOf({
      "main.hip": '#include "a.h"\n#include "b.h"\nint main_line;\n',
      "a.h": "#pragma once\nint a;\n",
      "b.h": '#pragma once\n#include "a.h"\nint b;\n',
    });
    expect(text).toBe(
      [
        "namespace rocmforge {",
        '#line 1 "main.hip"',
        '#line 1 "a.h"',
        "",
        "int a;",
        "",
        '#line 2 "main.hip"',
        '#line 1 "b.h"',
        "",
        "",
        "int b;",
        "",
        '#line 3 "main.hip"',
        "int main_line;",
        "",
        "}",
        "",
      ].join("\n"),
    );
  });

  it("takes files and headers of one folder, by their paths from the kernel folder", () => {
    const source = sourceOf(
      { "room/main.hip": '#include "other/a.h"\n', "other/a.h": '#include "other/b.h"\n', "other/b.h": "int b;\n" },
      "room/main",
    );
    expect(source.name).toBe("room/main");
    expect(source.text).toContain('#line 1 "other/b.h"\nint b;');
  });

  it("leaves the test double's header to its compiler", () => {
    expect(sourceOf({ "main.hip": '#include "emulated-device.h"  // given\n' }).text).toContain(
      '#include "emulated-device.h"',
    );
  });

  it("ends where headers include each other", () => {
    const { text } = sourceOf({
      "main.hip": '#include "a.h"\n',
      "a.h": '#include "b.h"\nint a;\n',
      "b.h": '#include "a.h"\nint b;\n',
    });
    expect(text.match(/int a;/g)).toHaveLength(1);
  });

  it("finds kernels, their structs and block sizes, not in comments", () => {
    const source = sourceOf({
      "main.hip": [
        "// KERNEL(commented, XArguments, 64) {",
        "constexpr int kWaves = 4;",
        "constexpr int kThreads = kWaves * WAVE;",
        "#define COUNT 96",
        "struct XArguments {",
        "  /** int hidden; */",
        "  int width;  // int other;",
        "};",
        "KERNEL(one, XArguments, 128) { }",
        "KERNEL(two, XArguments,",
        "       kThreads) {",
        "}",
        "KERNEL(three, XArguments, COUNT) { }",
      ].join("\n"),
    });
    expect(source.kernelNames).toEqual(["one", "two", "three"]);
    expect(source.kernel("one").layout.fields.map(({ name }) => name)).toEqual(["width"]);
    expect(source.constant(source.kernel("one").threads)).toBe(128);
    expect(source.constant(source.kernel("two").threads, { WAVE: 64 })).toBe(256);
    expect(source.constant(source.kernel("three").threads)).toBe(96);
    expect(source.constant(source.kernel("three").threads, { COUNT: 32 })).toBe(32);
  });

  it("rejects what is not there, by name", () => {
    expect(() => sourceOf({ "main.hip": '#include "gone.h"\n' })).toThrow(/needs .*gone\.h, which is missing/);
    expect(() => sourceOf({ "main.hip": '#include "../secret.h"\n' })).toThrow(/not a header of kernels/);
    for (const header of ["a/../b.h", "a/b/c.h", "/a.h", "./a.h"])
      expect(() => sourceOf({ "main.hip": `#include "${header}"\n` })).toThrow(/not a header of kernels/);
    for (const name of ["a/b/c", "/main", "a/../main", "a/"])
      expect(() => sourceOf({}, name)).toThrow(/not the name of a kernel file/);
    expect(() => sourceOf({}, "../main")).toThrow(/not the name of a kernel file/);
    expect(() => sourceOf({}, "main")).toThrow(GpuError);
    const source = sourceOf({
      "main.hip":
        "struct AArguments { int a; };\nKERNEL(one, AArguments, kNothing) { }\nKERNEL(two, BArguments, 1) { }\n",
    });
    expect(() => source.kernel("three")).toThrow(/has no KERNEL\(three, …\); it has one, two/);
    expect(() => source.kernel("two")).toThrow(/has no struct BArguments; it has AArguments/);
    expect(() => source.constant(source.kernel("one").threads)).toThrow(/does not define kNothing/);
  });
});

describe("the package's kernels", () => {
  const names = kernelFiles();

  it("are there", () => {
    expect(names).toContain("matmul/gemv");
  });

  for (const name of names) {
    it(`${name}.hip tells its kernels, arguments and block sizes`, () => {
      const source = loadKernelSource(name);
      expect(source.kernelNames.length).toBeGreaterThan(0);
      for (const kernel of source.kernelNames) {
        const { layout, threads } = source.kernel(kernel);
        const count = source.constant(threads, { WAVE: 64 });
        expect(layout.sizeBytes).toBeGreaterThan(0);
        expect(count % 32, `${kernel} has ${count} threads`).toBe(0);
        expect(count).toBeLessThanOrEqual(1024);
      }
    });
  }
});
