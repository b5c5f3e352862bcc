// The C++ code by its own test programs: every instruction set that this machine can run, under AddressSanitizer and UBSan.

import { beforeAll, describe, expect, it } from "vitest";
import { LIMIT_MS, nativeTests } from "./native-tests.js";

const { buildNativeTests, kernelSymbols, missingTool, nativeTestNames, runNativeTest } = nativeTests;
const missing = await missingTool("host");
const why = missing === undefined ? "" : ` (skipped: there is no ${missing})`;

describe.skipIf(missing !== undefined)(`the C++ tests under sanitizers${why}`, () => {
  let programs: ReadonlyMap<string, string> = new Map();
  beforeAll(async () => {
    programs = await buildNativeTests("host");
  }, LIMIT_MS);

  it("has tests of kernels and engine", () => {
    expect(nativeTestNames()).toEqual(expect.arrayContaining(["engine-test", "matmul-test", "rows-test"]));
  });

  it(
    "rejects kernels that share code between instruction sets",
    async () => {
      for (const [unit, symbols] of await kernelSymbols("host")) {
        const [, isa, part] = unit.split("-");
        expect({ unit, symbols }).toEqual({
          unit,
          symbols: [`rocmforge::${part === "rows" ? "row" : "matmul"}_kernels_${isa}()`],
        });
      }
    },
    LIMIT_MS,
  );

  // In parallel: each is a separate process, and they are among the longest tests.
  it.concurrent.each(nativeTestNames())(
    "%s",
    async (name) => {
      const { exitCode, output } = await runNativeTest("host", name, programs.get(name) ?? "");
      expect({ exitCode, said: exitCode === 0 ? "" : output }).toEqual({ exitCode: 0, said: "" });
    },
    LIMIT_MS,
  );
});
