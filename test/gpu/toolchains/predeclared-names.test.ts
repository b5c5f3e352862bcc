// Kernels compile whatever names were declared before them: hiprtc from ROCm 6 on puts HIP's headers before every source.
// Here with the host's compiler and the emulated device; `npm run test:toolchains` does the same with clang and hiprtc.

import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, it } from "vitest";
import { writeFileSync } from "node:fs";
import { kernelFiles, loadKernelSource } from "../../../src/backends/gpu/kernels/kernel-source.js";
import { TemporaryFolder } from "../../support/temporary-folder.js";
import { declaredNames, globalDeclarations } from "./declared-names.js";
import { smallModules } from "./small-modules.js";
import { CLANG_TARGETS } from "./targets.js";
import { defineArguments } from "./toolchain.js";

const EMULATOR = fileURLToPath(new URL("../emulator/", import.meta.url));
const compiler = ["g++", "clang++"].find((name) => spawnSync(name, ["--version"]).status === 0);

const folder = new TemporaryFolder();
afterAll(() => folder[Symbol.dispose]());

/** The compiler's errors; empty if it accepts the source. */
function complaints(name: string, source: string, defines: readonly string[]): string {
  const path = folder.file(`${name.replace("/", "-")}.cpp`);
  writeFileSync(path, source);
  const { status, stderr } = spawnSync(
    compiler ?? "",
    ["-fsyntax-only", "-std=c++17", "-w", "-DROCMFORGE_EMULATOR", `-I${EMULATOR}`, ...defines, path],
    { encoding: "utf8" },
  );
  return status === 0 ? "" : stderr;
}

describe.skipIf(compiler === undefined)(
  "kernels after declarations of all their names as something else (needs g++ or clang++)",
  () => {
    const modules = smallModules();

    it.each(kernelFiles())("%s.hip compiles", (file) => {
      const { text } = loadKernelSource(file);
      const names = declaredNames(text);
      expect(names).toEqual(expect.arrayContaining(["barrier", "u8", "wave_sum", "Words4"]));
      const defines = defineArguments({ target: CLANG_TARGETS[1], defines: modules.get(file)?.defines ?? {} });
      expect(complaints(file, globalDeclarations(names) + text, defines)).toBe("");
    });

    it("would not without a namespace, so the test can fail", () => {
      const { text } = loadKernelSource("rows/check");
      const bare = text.slice(text.indexOf("\n") + 1, text.lastIndexOf("}"));
      expect(complaints("bare", bare, ["-DWAVE=32"])).toBe("");
      expect(complaints("bare-after", globalDeclarations(declaredNames(text)) + bare, ["-DWAVE=32"])).not.toBe("");
    });
  },
);
