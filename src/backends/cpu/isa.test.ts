import { describe, expect, it } from "vitest";
import { OptionError } from "../../errors.js";
import { chooseIsa } from "./isa.js";

const ISAS = ["avx512", "avx2", "portable"];

describe("chooseIsa", () => {
  it("takes the best if none is named", () => {
    expect(chooseIsa(ISAS, undefined)).toBe("avx512");
    expect(chooseIsa(ISAS, "")).toBe("avx512");
  });

  it.each([
    ["avx2", "avx2"],
    ["PORTABLE", "portable"],
    [" avx512 ", "avx512"],
  ])("takes the one asked for: %s", (wanted, isa) => {
    expect(chooseIsa(ISAS, wanted)).toBe(isa);
  });

  it.each(["neon", "avx", "avx512,avx2"])("rejects %s and lists what there is", (wanted) => {
    expect(() => chooseIsa(ISAS, wanted)).toThrow(OptionError);
    expect(() => chooseIsa(ISAS, wanted)).toThrow(
      `ROCMFORGE_CPU_ISA: expected one that this machine can run (avx512, avx2, portable) or nothing for the best, found ${wanted}`,
    );
  });
});
