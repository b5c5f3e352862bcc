import { describe, expect, it } from "vitest";
import { BlockPool } from "./block-pool.js";
import { BlockTable } from "./block-table.js";

const NO_COPY = (): never => {
  throw new Error("no copy was expected");
};

function numbers(count: number): Int32Array {
  return Int32Array.from({ length: count }, (_, index) => index);
}

describe("BlockTable", () => {
  it("grows by whole blocks and keeps what it had", () => {
    const table = new BlockTable(new BlockPool(4, 16));
    expect(table.reserve(17)).toBe(true);
    expect([...table.blocks]).toEqual([0, 1]);
    expect(table.capacityTokens).toBe(32);
    expect(table.reserve(20)).toBe(true);
    expect([...table.blocks]).toEqual([0, 1]);
  });

  it("changes nothing when the pool has too few blocks", () => {
    const pool = new BlockPool(2, 16);
    const table = new BlockTable(pool);
    table.reserve(16);
    expect(table.reserve(64)).toBe(false);
    expect(table.makeWritable(16, 64, NO_COPY)).toBe(false);
    expect([...table.blocks]).toEqual([0]);
    expect(pool.freeBlocks).toBe(1);
  });

  it("copies a forked block for the first writer, and keeps it for the last", () => {
    const pool = new BlockPool(8, 4);
    const table = new BlockTable(pool);
    table.makeWritable(0, 6, NO_COPY);
    const twin = table.fork();
    expect([...twin.blocks]).toEqual([...table.blocks]);
    const copies: number[][] = [];
    expect(twin.makeWritable(6, 7, (from, to) => copies.push([from, to]))).toBe(true);
    expect(copies).toEqual([[1, 2]]);
    expect([...twin.blocks]).toEqual([0, 2]);
    expect(table.makeWritable(6, 7, NO_COPY)).toBe(true);
    expect(pool.references(0)).toBe(2);
  });

  it("changes nothing when there is no block to copy to", () => {
    const pool = new BlockPool(2, 4);
    const table = new BlockTable(pool);
    table.makeWritable(0, 6, NO_COPY);
    const twin = table.fork();
    expect(twin.makeWritable(6, 7, NO_COPY)).toBe(false);
    expect([...twin.blocks]).toEqual([0, 1]);
  });

  it("reuses committed blocks of another table, except the last token", () => {
    const pool = new BlockPool(8, 4, { sharesPrefixes: true });
    const table = new BlockTable(pool);
    table.reserve(12);
    table.commit(numbers(11), 11);
    for (const [length, gained] of [
      [4, 0],
      [5, 4],
      [8, 4],
      [9, 8],
      [20, 8],
    ]) {
      const other = new BlockTable(pool);
      expect(other.reusePrefix(numbers(length))).toBe(gained);
      expect([...other.blocks]).toEqual([...table.blocks.subarray(0, gained / 4)]);
      other[Symbol.dispose]();
    }
  });

  it("finds a prefix after its writer has gone, until the block is needed, the end of it first", () => {
    const pool = new BlockPool(4, 4, { sharesPrefixes: true });
    const table = new BlockTable(pool);
    table.reserve(12);
    table.commit(numbers(12), 12);
    table[Symbol.dispose]();
    expect(pool).toMatchObject({ freeBlocks: 1, cachedBlocks: 3 });
    pool.allocate(2);
    const other = new BlockTable(pool);
    expect(other.reusePrefix(numbers(13))).toBe(8);
  });

  it("removes invalidated blocks from the index, but not from tables that reference them", () => {
    const pool = new BlockPool(8, 4, { sharesPrefixes: true });
    const [wrong, reader, newcomer] = [new BlockTable(pool), new BlockTable(pool), new BlockTable(pool)];
    wrong.reserve(8);
    wrong.commit(numbers(8), 8);
    expect(reader.reusePrefix(numbers(9))).toBe(8);
    wrong.invalidate();
    wrong[Symbol.dispose]();
    expect([...reader.blocks]).toEqual([0, 1]);
    expect(newcomer.reusePrefix(numbers(9))).toBe(0);
    // Blocks after an invalidated block cannot be found, so they are not added.
    reader.makeWritable(8, 12, NO_COPY);
    reader.commit(numbers(12), 12);
    expect(reader.reusePrefix(numbers(16))).toBe(0);
    reader[Symbol.dispose]();
    expect(pool).toMatchObject({ freeBlocks: 8, cachedBlocks: 0 });
    // Whoever computes it anew puts it in again.
    newcomer.reserve(8);
    newcomer.commit(numbers(8), 8);
    expect(new BlockTable(pool).reusePrefix(numbers(9))).toBe(8);
  });

  it("puts in no block a second time whose place was lost with the one before it", () => {
    const pool = new BlockPool(8, 4, { sharesPrefixes: true });
    const table = new BlockTable(pool);
    table.reserve(8);
    const twin = table.fork();
    table.commit(numbers(8), 8);
    const reader = new BlockTable(pool);
    reader.reusePrefix(numbers(5));
    reader.invalidate();
    twin.commit(numbers(8), 8);
    expect(twin.committedTokens).toBe(4);
    for (const each of [table, twin, reader]) each[Symbol.dispose]();
    expect(pool.availableBlocks).toBe(8);
    expect(pool.allocate(8)).toHaveLength(8);
  });

  it("keeps one copy of what two computed at the same time", () => {
    const pool = new BlockPool(8, 4, { sharesPrefixes: true });
    const tables = [new BlockTable(pool), new BlockTable(pool)];
    for (const table of tables) table.reserve(8);
    for (const table of tables) table.commit(numbers(8), 8);
    expect([...tables[1].blocks]).toEqual([...tables[0].blocks]);
    expect(pool.freeBlocks).toBe(6);
  });

  it("takes a block over in the middle of its own, and frees its own", () => {
    const pool = new BlockPool(8, 4, { sharesPrefixes: true });
    const [first, second] = [new BlockTable(pool), new BlockTable(pool)];
    second.reserve(12);
    first.reserve(8);
    first.commit(numbers(8), 8);
    expect(second.reusePrefix(numbers(10))).toBe(8);
    expect([...second.blocks]).toEqual([...first.blocks, 2]);
    expect(pool.freeBlocks).toBe(5);
  });

  it("never hands out a block of other tokens or of another beginning, whatever the hashes", () => {
    const pool = new BlockPool(8, 2, { sharesPrefixes: true, hash: () => 7 });
    const table = new BlockTable(pool);
    table.reserve(4);
    table.commit(Int32Array.of(1, 2, 3, 4), 4);
    const other = new BlockTable(pool);
    expect(other.reusePrefix(Int32Array.of(3, 4, 1, 2, 9))).toBe(0);
    expect(other.reusePrefix(Int32Array.of(1, 2, 3, 5, 9))).toBe(2);
    expect(other.reusePrefix(Int32Array.of(1, 2, 3, 4, 9))).toBe(2);
  });

  it("copies a committed block that is written again, and refuses if it was not truncated", () => {
    const pool = new BlockPool(4, 4, { sharesPrefixes: true });
    const table = new BlockTable(pool);
    table.reserve(8);
    table.commit(numbers(8), 8);
    expect(() => table.makeWritable(6, 8, NO_COPY)).toThrow("committed");
    table.truncate(6);
    const copies: number[][] = [];
    expect(table.makeWritable(6, 8, (from, to) => copies.push([from, to]))).toBe(true);
    expect(copies).toEqual([[1, 2]]);
    expect(pool).toMatchObject({ freeBlocks: 1, cachedBlocks: 1 });
  });
});
