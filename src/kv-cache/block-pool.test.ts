import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { BlockPool } from "./block-pool.js";
import { BlockTable } from "./block-table.js";

describe("BlockPool", () => {
  it("hands out each block once and takes it back", () => {
    const pool = new BlockPool(4, 16);
    expect(pool.take(3)).toEqual([0, 1, 2]);
    expect(pool.take(2)).toBeUndefined();
    expect(pool.freeBlocks).toBe(1);
    pool.give([1]);
    expect(pool.take(2)).toEqual([1, 3]);
  });

  it("rejects a block that nobody holds", () => {
    const pool = new BlockPool(2, 16);
    expect(() => pool.give([0])).toThrow("block 0 is not held");
  });
});

describe("BlockTable", () => {
  it("grows by whole blocks and keeps what it had", () => {
    const pool = new BlockPool(4, 16);
    const table = new BlockTable(pool);
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
    expect([...table.blocks]).toEqual([0]);
    expect(pool.freeBlocks).toBe(1);
  });

  it("never shares a block between live tables, and gives all of them back", () => {
    const step = fc.record({ table: fc.nat(3), tokens: fc.nat(120), shrink: fc.boolean() });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const pool = new BlockPool(12, 8);
        const tables = Array.from({ length: 4 }, () => new BlockTable(pool));
        for (const { table, tokens, shrink } of steps) {
          if (shrink) tables[table].truncate(tokens);
          else tables[table].reserve(tokens);
          const held = tables.flatMap(({ blocks }) => [...blocks]);
          expect(new Set(held).size).toBe(held.length);
          expect(held.length + pool.freeBlocks).toBe(12);
        }
        for (const table of tables) table[Symbol.dispose]();
        expect(pool.freeBlocks).toBe(12);
      }),
    );
  });
});
