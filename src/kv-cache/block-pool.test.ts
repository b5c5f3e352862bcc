import { describe, expect, it } from "vitest";
import { BlockPool } from "./block-pool.js";
import { CachedBlocks } from "./cached-blocks.js";

describe("BlockPool", () => {
  it("hands out each block once and takes it back", () => {
    const pool = new BlockPool(4);
    expect(pool.allocate(3)).toEqual([0, 1, 2]);
    expect(pool.allocate(2)).toBeUndefined();
    expect(pool.freeBlocks).toBe(1);
    pool.release([1]);
    expect(pool.allocate(2)).toEqual([1, 3]);
  });

  it("frees a block with its last holder", () => {
    const pool = new BlockPool(1);
    pool.allocate(1);
    pool.retain(0);
    pool.release([0]);
    expect(pool.freeBlocks).toBe(0);
    pool.release([0]);
    expect(pool.freeBlocks).toBe(1);
  });

  it("rejects a block without references", () => {
    const pool = new BlockPool(2);
    expect(() => pool.release([0])).toThrow("block 0 is not referenced");
    expect(() => pool.retain(0)).toThrow("block 0 is neither referenced nor cached");
  });

  it("keeps what the index knows, and lets the one go that was left first", () => {
    const forgotten: string[] = [];
    const cached = new CachedBlocks<string>((place) => forgotten.push(place));
    const pool = new BlockPool(3, { cached });
    const [first, second] = pool.allocate(2) as number[];
    cached.add(first, "first", 4);
    cached.add(second, "second", 4);
    pool.release([second]);
    pool.release([first]);
    expect(pool).toMatchObject({ freeBlocks: 1, cachedBlocks: 2, availableBlocks: 3 });
    expect(pool.allocate(2)).toEqual([2, second]);
    expect(forgotten).toEqual(["second"]);
    expect([pool.isCached(first), pool.isCached(second)]).toEqual([true, false]);
  });

  it("frees a block whose contents are wrong with its last reference", () => {
    const cached = new CachedBlocks<string>(() => {});
    const pool = new BlockPool(2, { cached });
    const [held, left] = pool.allocate(2) as number[];
    cached.add(held, "held", 4);
    cached.add(left, "left", 4);
    pool.release([left]);
    pool.uncache(left);
    pool.uncache(held);
    expect(pool).toMatchObject({ freeBlocks: 1, cachedBlocks: 0 });
    pool.release([held]);
    expect(pool.freeBlocks).toBe(2);
  });
});
