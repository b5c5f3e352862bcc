import { describe, expect, it } from "vitest";
import { isTiledShape, type TiledParameters, tiledShape, usualTiledParameters } from "./tiled-attention.js";

function usualTiledShape(...given: Parameters<typeof usualTiledParameters>): ReturnType<typeof tiledShape> | undefined {
  const parameters = usualTiledParameters(...given);
  return parameters === undefined ? undefined : tiledShape(given[1], parameters);
}

describe("tiledShape", () => {
  it("rejects tiles over f32, and where shared memory is short", () => {
    expect(usualTiledParameters("f16", { keyWidth: 128, valueWidth: 128 }, 65_536)).toBeDefined();
    expect(usualTiledParameters("f32", { keyWidth: 128, valueWidth: 128 }, 65_536)).toBeUndefined();
    expect(usualTiledParameters("f16", { keyWidth: 256, valueWidth: 256 }, 49_152)).toBeUndefined();
  });

  it("sets shared memory aside for keys, values and results", () => {
    const plain = { defines: {}, blocksPerTile: 1 };
    const square = (width: number): { keyWidth: number; valueWidth: number } => ({
      keyWidth: width,
      valueWidth: width,
    });
    expect(usualTiledShape("f16", square(128), 65_536)).toEqual({ ...plain, sharedBytes: 3 * 64 * 136 * 2 + 2048 });
    expect(usualTiledShape("f16", square(256), 232_448)).toEqual({ ...plain, sharedBytes: 3 * 64 * 264 * 2 + 2048 });
    expect(usualTiledShape("q8_0", { keyWidth: 32, valueWidth: 96 }, 65_536)).toEqual({
      ...plain,
      sharedBytes: 64 * 96 * 4 + 2048,
    });
  });

  it("takes fewer positions, then half a tile a block, if heads of 256 find little shared memory", () => {
    const heads = { keyWidth: 256, valueWidth: 256 };
    expect(usualTiledShape("f16", heads, 101_376)).toEqual({
      defines: { TILE_WAVES: 4, TILE_POSITIONS: 32 },
      blocksPerTile: 1,
      sharedBytes: 128 * 264 * 2 + 2048,
    });
    expect(usualTiledShape("f16", heads, 65_536)).toEqual({
      defines: { TILE_WAVES: 2, TILE_POSITIONS: 32 },
      blocksPerTile: 2,
      sharedBytes: 96 * 264 * 2 + 1024,
    });
  });

  it("can cut tiles otherwise, as far as shared memory goes", () => {
    const isValid = (parameters: TiledParameters, sharedBytes: number): boolean =>
      isTiledShape({ keyWidth: 256, valueWidth: 256 }, parameters, sharedBytes);
    expect(isValid({ waves: 4, positions: 32 }, 232_448)).toBe(true);
    expect(isValid({ waves: 4, positions: 64 }, 101_376)).toBe(false);
    expect(isValid({ waves: 2, positions: 64 }, 232_448)).toBe(false);
    expect(isValid({ waves: 2, positions: 32 }, 65_536)).toBe(true);
  });
});
