import { describe, expect, it } from "vitest";
import { TILE_TOKEN_COUNTS } from "./gemm-shape.js";
import {
  type GroupedGemmParameters,
  type GroupedGemmRequest,
  groupedGemmShape,
  isGroupedGemmShape,
  usualGroupedGemmParameters,
} from "./grouped-gemm-shape.js";
import { familyOf } from "./kernel-families.js";

const REQUEST: GroupedGemmRequest = {
  tile: 64,
  wide: false,
  plain: false,
  parts: 1,
  kind: "cuda",
  sharedBytes: 163 << 10,
};
const POOR = familyOf("grouped-gemm").poor as GroupedGemmParameters;

function isValid(changes: Partial<GroupedGemmParameters>, request: Partial<GroupedGemmRequest> = {}): boolean {
  return isGroupedGemmShape({ ...REQUEST, ...request }, { ...POOR, ...changes });
}

describe("groupedGemmShape", () => {
  it("can be cut as the formulas say, and poorly, on every card", () => {
    for (const tile of TILE_TOKEN_COUNTS) {
      for (const [kind, sharedBytes] of [
        ["cuda", 99 << 10],
        ["cuda", 227 << 10],
        ["hip", 64 << 10],
      ] as const) {
        for (const form of [{}, { plain: true }, { wide: true }, { parts: tile === 16 ? 2 : 1 }]) {
          if ("wide" in form && (tile < 64 || sharedBytes < 200 << 10)) continue;
          const request = { ...REQUEST, tile, kind, sharedBytes, ...form };
          expect(isGroupedGemmShape(request, usualGroupedGemmParameters(request))).toBe(true);
          expect(isGroupedGemmShape(request, POOR)).toBe(true);
        }
      }
    }
  });

  it("has one stage in shared memory on AMD, and says nothing of blocks that are resident there", () => {
    const request = { ...REQUEST, kind: "hip" } as const;
    const usual = usualGroupedGemmParameters(request);
    expect(groupedGemmShape(request, usual)).toEqual({ defines: { STAGES: 1, PREFETCH: 1 }, sharedBytes: 64 * 256 });
    expect(isValid({ stages: 3 }, request)).toBe(false);
    expect(isValid({ resident: 3 }, request)).toBe(false);
    expect(isValid({ prefetch: 2 }, request)).toBe(true);
  });

  it("is given no more blocks than there are registers for, and no more stages than memory", () => {
    const residents = (request: Partial<GroupedGemmRequest>): readonly boolean[] =>
      [2, 3, 4].map((resident) => isValid({ resident }, request));
    expect(residents({ tile: 32 })).toEqual([true, true, true]);
    expect(residents({ tile: 128 })).toEqual([true, false, false]);
    expect(residents({ plain: true })).toEqual([true, false, false]);
    expect(residents({ wide: true })).toEqual([true, true, false]);
    expect([1, 2, 3, 4].map((stages) => isValid({ stages }, { tile: 128, sharedBytes: 99 << 10 }))).toEqual([
      false,
      true,
      true,
      false,
    ]);
  });

  it("keeps weights of one slab where they or wide products take the registers", () => {
    expect([{}, { plain: true }, { wide: true }].map((request) => isValid({ prefetch: 2 }, request))).toEqual([
      true,
      false,
      false,
    ]);
  });
});
