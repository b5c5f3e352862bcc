import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { loadKernelSource } from "../../../src/backends/gpu/kernels/kernel-source.js";
import { TemporaryFolder } from "../../support/temporary-folder.js";
import type { KernelUse, LaunchProperties } from "./code-object.js";
import { type CompiledModule, compileModules } from "./compiled-module.js";
import type { KernelModule } from "./kernel-modules.js";
import { CLANG_TARGETS } from "./targets.js";
import type { Toolchain } from "./toolchain.js";

const TARGET = CLANG_TARGETS[1];
const MODULE: KernelModule = {
  file: "rows/bandwidth",
  defines: {},
  launched: new Map([["read_all", 1024]]),
  askedBy: "this test",
};
const source = loadKernelSource("rows/bandwidth");
const { layout, threads } = source.kernel("read_all");
const PROPERTIES: LaunchProperties = {
  threads: source.constant(threads),
  waveSize: 32,
  argumentBytes: layout.sizeBytes,
};
const USE: KernelUse = {
  name: "read_all",
  vectorRegisters: 20,
  sharedBytes: 0,
  stackBytes: 0,
  spilledBytes: 0,
  launch: PROPERTIES,
};

let folder: TemporaryFolder;
beforeEach(() => {
  folder = new TemporaryFolder();
});
afterEach(() => folder[Symbol.dispose]());

async function compiled(
  answer: () => readonly KernelUse[],
  module = MODULE,
): Promise<CompiledModule & { readonly calls: number }> {
  let calls = 0;
  const toolchain: Toolchain = {
    name: "a compiler",
    identity: "1",
    compile: async () => {
      calls++;
      return answer();
    },
  };
  const [result] = await compileModules(toolchain, TARGET, [module], folder.path);
  return { ...result, calls };
}

describe("a compiled module", () => {
  it("is what the host believes, and is compiled once", async () => {
    expect(await compiled(() => [USE])).toEqual({ module: MODULE, kernels: [USE], fresh: true, calls: 1 });
    expect(await compiled(() => [USE])).toEqual({ module: MODULE, kernels: [USE], fresh: false, calls: 0 });
    expect((await compiled(() => [USE], { ...MODULE, defines: { TOKENS: 2 } })).calls).toBe(1);
  });

  it.each([
    [
      "another size of arguments",
      { ...USE, launch: { ...PROPERTIES, argumentBytes: layout.sizeBytes + 8 } },
      /bytes of arguments: the host has \d+, the code has \d+/,
    ],
    [
      "another block",
      { ...USE, launch: { ...PROPERTIES, threads: 64 } },
      /threads of a block: the host has 256, the code has 64/,
    ],
    [
      "other waves",
      { ...USE, launch: { ...PROPERTIES, waveSize: 64 } },
      /lanes of a wave: the host has 32, the code has 64/,
    ],
    [
      "too much shared memory",
      { ...USE, sharedBytes: 64 * 1024 - 1023 },
      /65537 bytes of shared memory, and there are 65536/,
    ],
    ["another name", { ...USE, name: "read_some" }, /read_all is launched and not in the code, which has read_some/],
  ])("rejects %s", async (_what, use, problem) => {
    expect((await compiled(() => [use])).problem).toMatch(problem);
  });

  it("has the compiler's words where it failed, and is tried again", async () => {
    const failing = (): never => {
      throw new Error("line 3: no such thing");
    };
    expect(await compiled(failing)).toMatchObject({ problem: "line 3: no such thing", kernels: [], calls: 1 });
    expect((await compiled(failing)).calls).toBe(1);
  });
});
