import { describe, expect, it } from "vitest";
import { transposedShape } from "./transposed-attention.js";

const square = (width: number): { keyWidth: number; valueWidth: number } => ({ keyWidth: width, valueWidth: width });
const RDNA = { waveSize: 32, sharedBytes: 65_536 } as const;
const CDNA = { waveSize: 64, sharedBytes: 65_536 } as const;

describe("transposedShape", () => {
  it("leaves room for two blocks on CDNA, and for three on a pair of RDNA's compute units", () => {
    const onCdna = transposedShape("f16", square(128), CDNA);
    expect(onCdna?.defines).toEqual({ TILE_WAVES: 4, TILE_POSITIONS: 32, TRANSPOSED: 1 });
    expect(onCdna?.sharedBytes).toBe(32 * 136 * 2 + 64 * 136 * 2 + 2048);
    expect(transposedShape("f16", square(128), RDNA)?.sharedBytes).toBe(96 * 136 * 2 + 128 * 36 * 2 + 2048);
  });

  it("takes more positions where a thread would have one row", () => {
    expect(transposedShape("f16", square(64), CDNA)?.defines.TILE_POSITIONS).toBe(64);
    expect(transposedShape("f16", square(64), RDNA)?.defines.TILE_POSITIONS).toBe(32);
    expect(transposedShape("q8_0", square(128), CDNA)?.defines.TILE_POSITIONS).toBe(64);
  });

  it("is undefined where rows and threads do not divide one another, or nothing fits", () => {
    expect(transposedShape("f16", square(96), RDNA)).toBeUndefined();
    expect(transposedShape("f16", square(80), CDNA)).toBeUndefined();
    expect(transposedShape("q8_0", square(48), RDNA)).toBeUndefined();
    expect(transposedShape("f32", square(128), RDNA)).toBeUndefined();
    expect(transposedShape("f16", square(256), RDNA)).toBeUndefined();
  });
});
