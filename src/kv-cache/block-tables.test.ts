import { describe, expect, it } from "vitest";
import { BlockPools } from "./block-pools.js";
import { BlockTables } from "./block-tables.js";

const NO_COPY = (): never => {
  throw new Error("no copy was expected");
};

function numbers(count: number): Int32Array {
  return Int32Array.from({ length: count }, (_, index) => index);
}

describe("BlockTables", () => {
  it("grows by whole blocks and keeps what it had", () => {
    const table = new BlockTables(new BlockPools([{ blocks: 4 }], 16));
    expect(table.reserve([2])).toBe(true);
    expect([...table.groups[0].blocks]).toEqual([0, 1]);
    expect(table.reserve([2])).toBe(true);
    expect([...table.groups[0].blocks]).toEqual([0, 1]);
  });

  it("changes nothing when the pool has too few blocks", () => {
    const pools = new BlockPools([{ blocks: 2 }], 16);
    const table = new BlockTables(pools);
    table.reserve([1]);
    expect(table.reserve([4])).toBe(false);
    expect(table.makeWritable(16, 64, NO_COPY)).toBe(false);
    expect([...table.groups[0].blocks]).toEqual([0]);
    expect(pools.groups[0].freeBlocks).toBe(1);
  });

  it("copies a forked block for the first writer, and keeps it for the last", () => {
    const pools = new BlockPools([{ blocks: 8 }], 4);
    const table = new BlockTables(pools);
    table.makeWritable(0, 6, NO_COPY);
    const twin = table.fork();
    expect([...twin.groups[0].blocks]).toEqual([...table.groups[0].blocks]);
    const copies: number[][] = [];
    expect(twin.makeWritable(6, 7, (from, to) => copies.push([from, to]))).toBe(true);
    expect(copies).toEqual([[1, 2]]);
    expect([...twin.groups[0].blocks]).toEqual([0, 2]);
    expect(table.makeWritable(6, 7, NO_COPY)).toBe(true);
    expect(pools.groups[0].references(0)).toBe(2);
  });

  it("changes nothing when there is no block to copy to", () => {
    const pools = new BlockPools([{ blocks: 2 }], 4);
    const table = new BlockTables(pools);
    table.makeWritable(0, 6, NO_COPY);
    const twin = table.fork();
    expect(twin.makeWritable(6, 7, NO_COPY)).toBe(false);
    expect([...twin.groups[0].blocks]).toEqual([0, 1]);
  });

  it("reuses committed blocks of another table, except the last token", () => {
    const pools = new BlockPools([{ blocks: 8 }], 4, { sharesPrefixes: true });
    const table = new BlockTables(pools);
    table.reserve([3]);
    table.commit(numbers(11), 11);
    for (const [length, gained] of [
      [4, 0],
      [5, 4],
      [8, 4],
      [9, 8],
      [20, 8],
    ]) {
      const other = new BlockTables(pools);
      expect(other.reusePrefix(numbers(length))).toBe(gained);
      expect([...other.groups[0].blocks]).toEqual([...table.groups[0].blocks.subarray(0, gained / 4)]);
      other[Symbol.dispose]();
    }
  });

  it("finds a prefix after its writer has gone, until the block is needed, the end of it first", () => {
    const pools = new BlockPools([{ blocks: 4 }], 4, { sharesPrefixes: true });
    const table = new BlockTables(pools);
    table.reserve([3]);
    table.commit(numbers(12), 12);
    table[Symbol.dispose]();
    expect(pools.groups[0]).toMatchObject({ freeBlocks: 1, cachedBlocks: 3 });
    pools.groups[0].allocate(2);
    const other = new BlockTables(pools);
    expect(other.reusePrefix(numbers(13))).toBe(8);
  });

  it("removes invalidated blocks from the index, but not from tables that reference them", () => {
    const pools = new BlockPools([{ blocks: 8 }], 4, { sharesPrefixes: true });
    const [wrong, reader, newcomer] = [new BlockTables(pools), new BlockTables(pools), new BlockTables(pools)];
    wrong.reserve([2]);
    wrong.commit(numbers(8), 8);
    expect(reader.reusePrefix(numbers(9))).toBe(8);
    wrong.invalidate(numbers(8));
    wrong[Symbol.dispose]();
    expect([...reader.groups[0].blocks]).toEqual([0, 1]);
    expect(newcomer.reusePrefix(numbers(9))).toBe(0);
    // Blocks after an invalidated block cannot be found, so they are not added.
    reader.makeWritable(8, 12, NO_COPY);
    reader.commit(numbers(12), 12);
    expect(reader.reusePrefix(numbers(16))).toBe(0);
    reader[Symbol.dispose]();
    expect(pools.groups[0]).toMatchObject({ freeBlocks: 8, cachedBlocks: 0 });
    // Whoever computes it anew puts it in again.
    newcomer.reserve([2]);
    newcomer.commit(numbers(8), 8);
    expect(new BlockTables(pools).reusePrefix(numbers(9))).toBe(8);
  });

  it("puts in no block a second time whose place was lost with the one before it", () => {
    const pools = new BlockPools([{ blocks: 8 }], 4, { sharesPrefixes: true });
    const table = new BlockTables(pools);
    table.reserve([2]);
    const twin = table.fork();
    table.commit(numbers(8), 8);
    const reader = new BlockTables(pools);
    reader.reusePrefix(numbers(5));
    reader.invalidate(numbers(5));
    twin.commit(numbers(8), 8);
    expect(twin.committedTokens).toBe(4);
    for (const each of [table, twin, reader]) each[Symbol.dispose]();
    expect(pools.groups[0].availableBlocks).toBe(8);
    expect(pools.groups[0].allocate(8)).toHaveLength(8);
  });

  it("keeps one copy of what two computed at the same time", () => {
    const pools = new BlockPools([{ blocks: 8 }], 4, { sharesPrefixes: true });
    const tables = [new BlockTables(pools), new BlockTables(pools)];
    for (const table of tables) table.reserve([2]);
    for (const table of tables) table.commit(numbers(8), 8);
    expect([...tables[1].groups[0].blocks]).toEqual([...tables[0].groups[0].blocks]);
    expect(pools.groups[0].freeBlocks).toBe(6);
  });

  it("takes a block over in the middle of its own, and frees its own", () => {
    const pools = new BlockPools([{ blocks: 8 }], 4, { sharesPrefixes: true });
    const [first, second] = [new BlockTables(pools), new BlockTables(pools)];
    second.reserve([3]);
    first.reserve([2]);
    first.commit(numbers(8), 8);
    expect(second.reusePrefix(numbers(10))).toBe(8);
    expect([...second.groups[0].blocks]).toEqual([...first.groups[0].blocks, 2]);
    expect(pools.groups[0].freeBlocks).toBe(5);
  });

  it("never hands out a block of other tokens or of another beginning, whatever the hashes", () => {
    const pools = new BlockPools([{ blocks: 8 }], 2, { sharesPrefixes: true, hash: () => 7 });
    const table = new BlockTables(pools);
    table.reserve([2]);
    table.commit(Int32Array.of(1, 2, 3, 4), 4);
    const other = new BlockTables(pools);
    expect(other.reusePrefix(Int32Array.of(3, 4, 1, 2, 9))).toBe(0);
    expect(other.reusePrefix(Int32Array.of(1, 2, 3, 5, 9))).toBe(2);
    expect(other.reusePrefix(Int32Array.of(1, 2, 3, 4, 9))).toBe(2);
  });

  it("copies a committed block that is written again, and refuses if it was not truncated", () => {
    const pools = new BlockPools([{ blocks: 4 }], 4, { sharesPrefixes: true });
    const table = new BlockTables(pools);
    table.reserve([2]);
    table.commit(numbers(8), 8);
    expect(() => table.makeWritable(6, 8, NO_COPY)).toThrow("committed");
    table.truncate(6);
    const copies: number[][] = [];
    expect(table.makeWritable(6, 8, (from, to) => copies.push([from, to]))).toBe(true);
    expect(copies).toEqual([[1, 2]]);
    expect(pools.groups[0]).toMatchObject({ freeBlocks: 1, cachedBlocks: 1 });
  });

  describe("with a sliding window", () => {
    /** Full attention and a window of 6 tokens, in blocks of 2. */
    const WINDOW = 6;
    function windowed(options: { readonly blocks?: number; readonly windowBlocks?: number } = {}): BlockPools {
      const { blocks = 32, windowBlocks = 32 } = options;
      return new BlockPools([{ blocks }, { blocks: windowBlocks, window: WINDOW }], 2, { sharesPrefixes: true });
    }

    /** Computes positions up to `end`, one block at a time. */
    function compute(tables: BlockTables, tokens: Int32Array, start: number, end: number): void {
      for (let position = start; position < end; position += 2) {
        expect(tables.makeWritable(position, Math.min(end, position + 2), NO_COPY)).toBe(true);
        tables.commit(tokens, Math.min(end, position + 2));
        tables.releaseUnseen(Math.min(end, position + 2));
      }
    }

    it("holds blocks only as long as a query sees them", () => {
      const pools = windowed();
      const tables = new BlockTables(pools);
      compute(tables, numbers(40), 0, 40);
      expect(tables.groups.map(({ heldBlocks }) => heldBlocks)).toEqual([20, 3]);
      // The query at position 40 sees 35 to 40: blocks 17 to 19 and its own.
      expect(tables.groups[1].firstHeld).toBe(17);
      expect([...tables.groups[1].blocks.subarray(0, 17)]).toEqual(Array(17).fill(0));
      expect(pools.groups[1]).toMatchObject({ freeBlocks: 12, cachedBlocks: 17 });
    });

    it("gives released blocks to others when none are free", () => {
      const pools = windowed({ windowBlocks: 5 });
      const tables = new BlockTables(pools);
      compute(tables, numbers(40), 0, 40);
      expect(pools.groups[1]).toMatchObject({ freeBlocks: 0, cachedBlocks: 2 });
    });

    it("reuses a prefix with the window before its end alone", () => {
      const pools = windowed({ windowBlocks: 6 });
      const first = new BlockTables(pools);
      compute(first, numbers(40), 0, 40);
      first[Symbol.dispose]();
      const again = new BlockTables(pools);
      expect(again.reusePrefix(numbers(41))).toBe(40);
      expect(again.groups.map(({ heldBlocks }) => heldBlocks)).toEqual([20, 3]);
      expect(again.groups[1].blocks).toHaveLength(20);
      compute(again, numbers(60), 40, 60);
    });

    it("takes the longest prefix on which all groups agree", () => {
      const pools = windowed({ windowBlocks: 12 });
      const first = new BlockTables(pools);
      compute(first, numbers(40), 0, 40);
      first[Symbol.dispose]();
      // Full attention has all 40 tokens, and the window its last blocks, from 16 to 40.
      const diverging = (length: number): Int32Array => numbers(41).map((token) => (token < length ? token : 99));
      for (const [same, reused] of [
        [40, 40],
        [33, 32],
        [22, 22],
        [21, 0],
        [10, 0],
      ]) {
        const other = new BlockTables(pools);
        expect(other.reusePrefix(diverging(same))).toBe(reused);
        other[Symbol.dispose]();
      }
    });

    it("finds a whole prefix again when a lost window was computed again", () => {
      const pools = windowed({ windowBlocks: 6 });
      const first = new BlockTables(pools);
      compute(first, numbers(40), 0, 40);
      first[Symbol.dispose]();
      const second = new BlockTables(pools);
      expect(second.reusePrefix(numbers(20))).toBe(0);
      compute(second, numbers(20), 0, 20);
      const held = [...second.groups[0].blocks];
      second[Symbol.dispose]();
      const third = new BlockTables(pools);
      expect(third.reusePrefix(numbers(21))).toBe(20);
      expect([...third.groups[0].blocks]).toEqual(held);
    });

    it("keeps no more of the index than blocks and their beginnings need", () => {
      const pools = new BlockPools([{ blocks: 4, window: 2 }], 2, { sharesPrefixes: true });
      for (let text = 0; text < 10; text++) {
        const tables = new BlockTables(pools);
        compute(
          tables,
          numbers(20).map((token) => token + text * 100),
          0,
          20,
        );
        tables[Symbol.dispose]();
      }
      expect(pools.prefixes?.nodes).toBeLessThanOrEqual(4 * 10);
      pools.reset({ blocks: [4], stateSlots: 0 });
      expect(pools.prefixes?.nodes).toBe(0);
    });

    it("removes invalidated blocks of a window that nothing references", () => {
      const pools = windowed();
      const tables = new BlockTables(pools);
      compute(tables, numbers(20), 0, 20);
      tables.invalidate(numbers(20));
      expect(pools.groups[1]).toMatchObject({ cachedBlocks: 0, freeBlocks: 29 });
      tables[Symbol.dispose]();
      expect(pools.counts()).toEqual({ blocks: 64, freeBlocks: 64, cachedBlocks: 0 });
      expect(pools.prefixes?.nodes).toBe(0);
      expect(new BlockTables(pools).reusePrefix(numbers(20))).toBe(0);
    });

    it("truncates to a position whose window is there, and otherwise to the beginning", () => {
      const tables = new BlockTables(windowed());
      compute(tables, numbers(40), 0, 40);
      expect(tables.truncate(40)).toBe(40);
      expect(tables.truncate(38)).toBe(0);
      expect(tables.groups.map(({ heldBlocks }) => heldBlocks)).toEqual([0, 0]);
    });

    it("starts over with each chunk of chunked attention", () => {
      const pools = new BlockPools([{ blocks: 20, chunk: 8 }], 2, { sharesPrefixes: true });
      const tables = new BlockTables(pools);
      compute(tables, numbers(15), 0, 14);
      expect(tables.groups[0].heldBlocks).toBe(3);
      compute(tables, numbers(16), 14, 16);
      expect(tables.groups[0].heldBlocks).toBe(0);
      const other = new BlockTables(pools);
      expect(other.reusePrefix(numbers(17))).toBe(16);
      expect(other.groups[0].heldBlocks).toBe(0);
      expect(other.makeWritable(16, 17, NO_COPY)).toBe(true);
      expect(other.groups[0].blocks).toHaveLength(9);
    });
  });
});
