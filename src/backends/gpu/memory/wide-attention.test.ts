import { describe, expect, it } from "vitest";
import type { AttentionOperation } from "../../../graph/operation.js";
import { wideSplitRows, wideSplitShape, wideTiledShape } from "./wide-attention.js";

const LATENT: AttentionOperation = {
  kind: "attention",
  layer: 0,
  query: 0,
  out: 1,
  heads: 20,
  kvHeads: 1,
  keyWidth: 576,
  valueWidth: 512,
  valuesInKeys: true,
  scale: 1,
};
const WIDE: AttentionOperation = { ...LATENT, kvHeads: 4, keyWidth: 512, valuesInKeys: false };
const H200 = { sharedBytes: 232_448, waveSize: 32 } as const;
const AMD = { sharedBytes: 65_536, waveSize: 64 } as const;
const AMD_32 = { ...AMD, waveSize: 32 } as const;

describe("prefill over wide heads", () => {
  it("takes whole tiles of tokens where shared memory has room, and parts of them elsewhere", () => {
    expect(wideTiledShape("f16", LATENT, H200)?.defines).toEqual({ ROW_TILES: 4, TILE_POSITIONS: 32, STAGES: 2 });
    expect(wideTiledShape("q8_0", WIDE, H200)?.rows).toBe(64);
    for (const operation of [LATENT, WIDE]) {
      for (const device of [AMD, AMD_32]) {
        const shape = wideTiledShape("f16", operation, device);
        const ownBytes = (256 / device.waveSize) * 1024;
        expect(shape?.sharedBytes).toBeLessThanOrEqual(device.sharedBytes - ownBytes);
        expect(64 % (shape?.rows ?? 0)).toBe(0);
      }
    }
  });

  it("is left to the kernel of narrow heads, or to split attention over f32", () => {
    const heads = (width: number): AttentionOperation => ({ ...WIDE, keyWidth: width, valueWidth: width });
    expect(wideTiledShape("f16", heads(128), H200)).toBeUndefined();
    expect(wideTiledShape("f16", heads(256), H200)).toBeDefined();
    expect(wideTiledShape("f16", heads(256), AMD)).toBeUndefined();
    expect(wideTiledShape("f32", LATENT, H200)).toBeUndefined();
  });
});

describe("decode over wide heads", () => {
  it("has all heads of a group in one block if it can", () => {
    const shape = wideSplitShape("f16", LATENT, H200);
    if (shape === undefined) throw new Error("latent attention fits an H200");
    expect(shape.defines).toEqual({ ROW_TILES: 2, TILE_POSITIONS: 64, STAGES: 1 });
    expect(wideSplitRows(LATENT, shape)).toBe(1);
    expect(wideSplitRows({ ...LATENT, heads: 128 }, shape)).toBe(4);
    const small = wideSplitShape("f16", LATENT, AMD);
    expect(small?.rows).toBe(16);
    expect(small?.sharedBytes).toBeLessThanOrEqual(AMD.sharedBytes - 4096);
  });

  it("counts shared memory as kernels/attention/wide.h does", () => {
    const rows = 2 * 32 * 584 * 2;
    const positions = 64 * 584 * 2;
    const weights = 2 * 32 * 72 * 2;
    const floats = ((2 * 4 + 5) * 32 + 2 * 64) * 4;
    expect(wideSplitShape("f16", LATENT, H200)?.sharedBytes).toBe(rows + positions + weights + floats);
  });

  it("is left to exact kernels for rows that f16 does not have, and to others for narrow heads", () => {
    expect(wideSplitShape("q8_0", LATENT, H200)).toBeUndefined();
    expect(wideSplitShape("f32", LATENT, H200)).toBeUndefined();
    expect(wideSplitShape("f16", { ...WIDE, keyWidth: 256, valueWidth: 256 }, H200)).toBeUndefined();
  });
});
