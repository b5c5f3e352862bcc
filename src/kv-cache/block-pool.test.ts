import { describe, expect, it } from "vitest";
import { BlockPool } from "./block-pool.js";

describe("BlockPool", () => {
  it("hands out each block once and takes it back", () => {
    const pool = new BlockPool(4, 16);
    expect(pool.allocate(3)).toEqual([0, 1, 2]);
    expect(pool.allocate(2)).toBeUndefined();
    expect(pool.freeBlocks).toBe(1);
    pool.release([1]);
    expect(pool.allocate(2)).toEqual([1, 3]);
  });

  it("frees a block with its last holder", () => {
    const pool = new BlockPool(1, 16);
    pool.allocate(1);
    pool.retain(0);
    pool.release([0]);
    expect(pool.freeBlocks).toBe(0);
    pool.release([0]);
    expect(pool.freeBlocks).toBe(1);
  });

  it("rejects a block without references", () => {
    const pool = new BlockPool(2, 16);
    expect(() => pool.release([0])).toThrow("block 0 is not referenced");
    expect(() => pool.retain(0)).toThrow("block 0 is neither referenced nor cached");
  });

  it("keeps what the index knows, and lets the one go that was left first", () => {
    const pool = new BlockPool(3, 2, { sharesPrefixes: true });
    const [first, second] = pool.allocate(2) as number[];
    const tokens = Int32Array.of(1, 2, 3, 4);
    pool.prefixes?.add(undefined, tokens, 0, first);
    pool.prefixes?.add(undefined, tokens, 2, second);
    pool.release([second]);
    pool.release([first]);
    expect(pool).toMatchObject({ freeBlocks: 1, cachedBlocks: 2, availableBlocks: 3 });
    expect(pool.allocate(2)).toEqual([2, second]);
    expect(pool.prefixes?.find(undefined, tokens, 0)?.block).toBe(first);
    expect(pool.prefixes?.find(undefined, tokens, 2)).toBeUndefined();
  });
});
