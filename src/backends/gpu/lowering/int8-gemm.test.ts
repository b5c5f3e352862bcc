import { describe, expect, it } from "vitest";
import { layoutByName, type SupportedTypeName } from "../../../quant/layout.js";
import type { TensorDescriptor } from "../../../tensor/descriptor.js";
import { takesInt8Gemm } from "./int8-gemm.js";
import { KernelChoices } from "./kernel-choices.js";
import type { BatchClass } from "./matmul-selection.js";

const DEVICE = { waveSize: 32, multiprocessors: 32, sharedBytes: 65_536, totalBytes: 2 ** 34 } as const;

function weight(type: SupportedTypeName): TensorDescriptor {
  return { name: "w", layout: layoutByName(type), shape: [4096, 4096], elements: 2 ** 24, sizeBytes: 0 };
}

function takes(
  architecture: string,
  type: SupportedTypeName,
  batch: BatchClass,
  choices = new KernelChoices({ deterministic: false }),
): boolean {
  return takesInt8Gemm({ device: { ...DEVICE, architecture } }, weight(type), batch, choices);
}

describe("takesInt8Gemm", () => {
  it("is for RDNA4 and CDNA3 on, with or without features behind their names", () => {
    const taken = ["gfx1200", "gfx1201", "gfx942", "gfx942:sramecc+:xnack-", "gfx950"];
    expect(taken.filter((name) => !takes(name, "Q8_0", "medium"))).toEqual([]);
    const others = ["gfx1100", "gfx90a", "sm_90", "", "toString"];
    expect(others.filter((name) => takes(name, "Q8_0", "medium"))).toEqual([]);
  });

  it("is for types whose scales are of 32 columns, as far as the counts say", () => {
    const batches = ["small", "medium", "large", "huge"] as const;
    const batchesOf = (architecture: string, type: SupportedTypeName): readonly string[] =>
      batches.filter((batch) => takes(architecture, type, batch));
    for (const type of ["Q4_0", "Q8_0"] as const)
      expect(batchesOf("gfx1201", type)).toEqual(["medium", "large", "huge"]);
    for (const type of ["Q4_0", "Q8_0", "Q4_K"] as const) expect(batchesOf("gfx942", type)).toEqual(["medium"]);
    for (const type of ["Q4_K", "Q6_K"] as const) expect(batchesOf("gfx1201", type)).toEqual(["medium"]);
    expect(batchesOf("gfx942", "Q6_K")).toEqual([]);
    for (const type of ["Q5_K", "F16"] as const) expect(batchesOf("gfx1201", type)).toEqual([]);
  });

  it("rejects rows that are no multiple of what a wave multiplies at a time", () => {
    const choices = new KernelChoices({ deterministic: false });
    const narrow = { ...weight("Q8_0"), shape: [576, 4096] };
    expect(takesInt8Gemm({ device: { ...DEVICE, architecture: "gfx1201" } }, narrow, "large", choices)).toBe(false);
  });

  it("is given up when two modules were wrong", () => {
    const choices = new KernelChoices({ deterministic: false });
    choices.avoid({ file: "matmul/int8-gemm", defines: { TOKENS: 16 } });
    expect(takes("gfx1201", "Q8_0", "large", choices)).toBe(true);
    choices.avoid({ file: "matmul/int8-gemm", defines: { TOKENS: 32 } });
    expect(takes("gfx1201", "Q8_0", "large", choices)).toBe(false);
  });
});
