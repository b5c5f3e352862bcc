import { describe, expect, it } from "vitest";
import { familyOf } from "./kernel-families.js";
import {
  isWideGemmShape,
  PANEL_TOKENS,
  usualWideGemmParameters,
  type WideGemmParameters,
  type WideGemmRequest,
  wideGemmShape,
} from "./wide-gemm-shape.js";

const [Q4_K, Q6_K] = [12, 14];
const REQUEST: WideGemmRequest = {
  rows: [4096],
  width: 4096,
  gated: false,
  types: [Q4_K],
  multiprocessors: 132,
  sharedBytes: 227 << 10,
};
const POOR = familyOf("wide-gemm").poor as WideGemmParameters;

describe("wideGemmShape", () => {
  it("has the longest ring that registers have room for, and the stages that memory has room for", () => {
    const usualOf = (types: readonly number[]): readonly (readonly number[])[] =>
      PANEL_TOKENS.map((tokens) => {
        const { teams, ring, stages } = usualWideGemmParameters({ ...REQUEST, types }, tokens);
        return [teams, ring, stages];
      });
    const usual = usualOf([Q4_K]);
    expect(usual.map(([, ring]) => ring)).toEqual([6, 6, 6, 6, 4]);
    expect(usualOf([Q6_K]).map(([teams, ring]) => (teams === 2 ? ring : ring + 2))).toEqual([6, 6, 6, 6, 2]);
    expect(usualOf([Q4_K, Q4_K, Q6_K]).map(([teams, ring]) => [teams, ring])).toEqual([
      [2, 6],
      [2, 6],
      [2, 6],
      [2, 4],
      [2, 2],
    ]);
    expect(usual.map(([, , stages]) => stages)).toEqual([6, 6, 6, 6, 3]);
    expect(wideGemmShape(64, { teams: 3, shares: 0, ring: 2, stages: 4 })).toEqual({
      teams: 4,
      ring: 2,
      stages: 4,
      sharedBytes: 4 * 64 * 128 * 2 + 1024,
    });
  });

  it("is what a tuner found best for Llama-3-8B on an H200", () => {
    const sharesOf = (request: Partial<WideGemmRequest>): readonly (readonly number[])[] =>
      PANEL_TOKENS.slice(0, 3).map((tokens) => {
        const { teams, shares } = usualWideGemmParameters({ ...REQUEST, ...request }, tokens);
        return [teams, shares];
      });
    const [teams, evenly] = [4, 0];
    const gated = { rows: [14_336], gated: true };
    expect(sharesOf(gated)).toEqual([
      [3, evenly],
      [teams, 1],
      [teams, 1],
    ]);
    expect(sharesOf({ width: 14_336 })).toEqual([2, 2, 2].map((two) => [two, 4]));
    expect(sharesOf({ width: 14_336, types: [Q6_K] })).toEqual([2, 2, 2].map((two) => [two, 4]));
    expect(sharesOf({ rows: [4096, 1024, 1024], types: [Q4_K, Q4_K, Q4_K] })).toEqual([2, 2, 2].map((two) => [two, 2]));
    expect(sharesOf({ rows: [128_256], types: [Q6_K] })).toEqual([
      [2, evenly],
      [2, evenly],
      [3, evenly],
    ]);
  });

  it("can be cut as the formulas say, and poorly, whatever the matrices", () => {
    for (const rows of [[64], [4096, 1024, 1024], [14_336]]) {
      for (const gated of [false, true]) {
        for (const types of [[Q4_K], [Q4_K, Q6_K]]) {
          for (const tokens of PANEL_TOKENS) {
            const request = { ...REQUEST, rows, gated, types };
            expect(isWideGemmShape(request, tokens, usualWideGemmParameters(request, tokens))).toBe(true);
            expect(isWideGemmShape(request, tokens, POOR)).toBe(true);
          }
        }
      }
    }
  });

  it("has no long ring where registers are full, and no more stages than there is memory for", () => {
    const isValid = (changes: Partial<WideGemmParameters>, tokens: (typeof PANEL_TOKENS)[number] = 64): boolean =>
      isWideGemmShape(REQUEST, tokens, { ...POOR, ...changes });
    expect([isValid({ ring: 6 }), isValid({ ring: 4, teams: 4 }), isValid({ ring: 6 }, 256)]).toEqual([
      true,
      false,
      false,
    ]);
    expect([1, 2, 3, 4, 6].map((stages) => isValid({ stages }, 256))).toEqual([false, true, true, false, false]);
    expect([1, 2, 3, 4, 6].map((stages) => isValid({ stages }))).toEqual([false, true, true, true, true]);
    expect(isValid({ ring: 3 })).toBe(false);
  });
});
