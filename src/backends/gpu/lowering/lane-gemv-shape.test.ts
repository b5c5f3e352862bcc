import { describe, expect, it } from "vitest";
import { familyOf } from "./kernel-families.js";
import {
  isLaneShape,
  type LaneParameters,
  laneShape,
  type LaneRequest,
  normsApart,
  takesLanes,
  usualLaneParameters,
} from "./lane-gemv-shape.js";

const H200 = {
  waveSize: 32,
  multiprocessors: 132,
  sharedBytes: 227 << 10,
  totalBytes: 150e9,
  architecture: "sm_90",
} as const;
const FORMS = ["plain", "gated", "handed"] as const;

function requestOf(request: Partial<LaneRequest>): LaneRequest {
  return { rows: [4096], width: 4096, types: [12], form: "plain", multiprocessors: 132, ...request };
}

function shapeOf(request: Partial<LaneRequest>): ReturnType<typeof laneShape> {
  return laneShape(requestOf(request));
}

/** Every combination of candidates that a launch can be cut by. */
function validCuts(request: LaneRequest): readonly LaneParameters[] {
  const { rows, passes, teams } = familyOf("lane-gemv").parameters;
  return rows
    .flatMap((each) => passes.flatMap((pass) => teams.map((team) => ({ rows: each, passes: pass, teams: team }))))
    .filter((parameters) => isLaneShape(request, parameters));
}

describe("laneShape", () => {
  it("has a lane for every block of a row, a thread for every result and every row in a block", () => {
    for (const form of FORMS) {
      for (const width of [32, 96, 896, 1024, 2048, 4096, 4864, 8192, 14_336, 16_384]) {
        for (const rows of [[32], [896], [4096], [14_336], [128_256]]) {
          for (const types of [[12], [14], [13, 12]]) {
            const { defines, blockRows, blocks } = shapeOf({ form, width, rows, types });
            const { THREADS, ROWS, SPLIT, PASSES } = defines;
            expect(SPLIT * 32 * 32).toBeGreaterThanOrEqual(width);
            expect(THREADS % (SPLIT * 32)).toBe(0);
            expect(THREADS).toBeLessThanOrEqual(512);
            expect(blockRows).toBe((THREADS / 32 / SPLIT) * ROWS * PASSES);
            expect(blockRows).toBeLessThanOrEqual(THREADS);
            expect(Number.isInteger(Math.log2(ROWS))).toBe(true);
            expect(blocks[0] * blockRows).toBeGreaterThanOrEqual(rows[0]);
            if (form !== "plain") expect(blockRows).toBe(32);
          }
        }
      }
    }
  });

  it("cuts the matrices of an 8B model as it was measured on an H200", () => {
    expect(shapeOf({ rows: [4096, 1024, 1024], types: [12, 12, 14] })).toMatchObject({
      defines: { THREADS: 128, ROWS: 8, PASSES: 1 },
      blocks: [512, 128, 128],
    });
    expect(shapeOf({ rows: [128_256], types: [14] })).toMatchObject({ defines: { THREADS: 128, ROWS: 8, PASSES: 4 } });
    expect(shapeOf({ form: "handed" })).toMatchObject({ defines: { THREADS: 512, ROWS: 8, PASSES: 1 }, blocks: [128] });
    expect(shapeOf({ form: "handed", width: 14_336 })).toMatchObject({ defines: { THREADS: 448, ROWS: 8, PASSES: 4 } });
    expect(shapeOf({ form: "handed", width: 14_336, types: [13] })).toMatchObject({ defines: { ROWS: 4, PASSES: 8 } });
    expect(shapeOf({ form: "gated", rows: [14_336], types: [12, 12] })).toMatchObject({
      defines: { THREADS: 128, ROWS: 4, PASSES: 8 },
      blocks: [448],
    });
  });
});

describe("other cuts", () => {
  it("include the formula's and the poor ones, and keep what the kernel asks of them", () => {
    for (const form of FORMS) {
      for (const width of [32, 896, 1024, 4096, 8192, 14_336, 16_384]) {
        for (const rows of [[32], [4096], [128_256]]) {
          const request = requestOf({ form, width, rows });
          expect(isLaneShape(request, usualLaneParameters(request))).toBe(true);
          expect(isLaneShape(request, familyOf("lane-gemv").poor as LaneParameters)).toBe(true);
          for (const parameters of validCuts(request)) {
            const { defines, blockRows, blocks } = laneShape(request, parameters);
            expect(defines.SPLIT).toBe(Math.ceil(width / 1024));
            expect(defines.THREADS).toBeLessThanOrEqual(512);
            expect(defines.THREADS % (defines.SPLIT * 32)).toBe(0);
            expect(blockRows).toBeLessThanOrEqual(defines.THREADS);
            expect(blocks[0] * blockRows).toBeGreaterThanOrEqual(rows[0]);
            if (form !== "plain") expect(blockRows).toBe(32);
          }
        }
      }
    }
  });

  it("are several for every form, and no more rows than a lane has registers for", () => {
    expect(validCuts(requestOf({})).length).toBeGreaterThan(20);
    expect(validCuts(requestOf({ form: "handed" })).map(({ teams }) => teams)).toEqual(
      expect.arrayContaining([1, 2, 4]),
    );
    expect(validCuts(requestOf({ form: "gated" })).every(({ rows }) => rows <= 4)).toBe(true);
    expect(validCuts(requestOf({ form: "handed", width: 14_336 }))).toEqual([
      { rows: 1, passes: 32, teams: 1 },
      { rows: 2, passes: 16, teams: 1 },
      { rows: 4, passes: 8, teams: 1 },
      { rows: 8, passes: 4, teams: 1 },
    ]);
    expect(isLaneShape(requestOf({}), { rows: 3, passes: 1, teams: 4 })).toBe(false);
  });
});

describe("takesLanes", () => {
  it("is for NVIDIA's cards from sm_90 on, rows that a block has lanes for, and not for deterministic mode", () => {
    const takes = (architecture: string | undefined, width = 4096, deterministic = false): boolean =>
      takesLanes(
        { device: { ...H200, ...(architecture === undefined ? {} : { architecture }) }, deterministic },
        width,
      );
    expect(["sm_90", "sm_90a", "sm_100", "sm_120"].map((architecture) => takes(architecture))).toEqual([
      true,
      true,
      true,
      true,
    ]);
    expect(["sm_89", "gfx942", "gfx1100", "sm_9"].map((architecture) => takes(architecture))).toEqual([
      false,
      false,
      false,
      false,
    ]);
    expect(takes("sm_90", 16_384)).toBe(true);
    expect(takes("sm_90", 16_416)).toBe(false);
    expect(takes("sm_90", 4096, true)).toBe(false);
    const vocabulary = { shape: [4096, 128_256], elements: 4096 * 128_256 };
    expect(normsApart({ device: H200, deterministic: false }, vocabulary)).toBe(true);
    expect(normsApart({ device: H200, deterministic: true }, vocabulary)).toBe(false);
    expect(normsApart({ device: H200, deterministic: false }, { shape: [4096, 6144], elements: 4096 * 6144 })).toBe(
      false,
    );
    expect(takesLanes({ device: { ...H200, waveSize: 64 }, deterministic: false }, 4096)).toBe(false);
  });
});
