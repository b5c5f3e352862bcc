// Checkpoints by example: where they are found, what they share, and what they are dropped with. The laws are in
// ownership.test.ts.

import { describe, expect, it } from "vitest";
import { BlockPools } from "./block-pools.js";
import { BlockTables } from "./block-tables.js";

const BLOCK_TOKENS = 4;

function numbers(count: number): Int32Array {
  return Int32Array.from({ length: count }, (_, index) => index);
}

function recurrent(slots = 8, blocks = 16): BlockPools {
  return new BlockPools([{ blocks }], BLOCK_TOKENS, { sharesPrefixes: true, states: { slots } });
}

/** One step; `others` are the tokens after which the states are written besides. */
function compute(tables: BlockTables, tokens: Int32Array, start: number, end: number, others: readonly number[] = []) {
  const copies: number[][] = [];
  expect(tables.makeWritable(start, end, (from, to) => copies.push([from, to]))).toBe(true);
  for (const count of others) expect(tables.states?.alsoAfter(count)).toBe(true);
  tables.commit(tokens, end);
  return copies;
}

/** A sequence of these tokens that is computed, kept at its end, and gone. */
function remember(pools: BlockPools, tokens: Int32Array, others: readonly number[] = []): void {
  using tables = new BlockTables(pools);
  compute(tables, tokens, 0, tokens.length, others);
  tables.checkpoint(tokens, tokens.length);
}

/** Tokens of a text that need not be computed. */
function reusable(pools: BlockPools, tokens: Int32Array): number {
  using tables = new BlockTables(pools);
  return tables.reusePrefix(tokens);
}

describe("checkpoints", () => {
  it("are found at exact positions, the longest first, and leave the last token", () => {
    const pools = recurrent();
    remember(pools, numbers(11), [2, 6, 8]);
    const found = (count: number): number => reusable(pools, numbers(count));
    expect([2, 3, 7, 8, 9, 11, 12, 20].map(found)).toEqual([0, 2, 6, 6, 8, 8, 11, 11]);
    expect(pools.checkpoints).toMatchObject({ held: 4, evicted: 0 });
  });

  it("are not all evicted for the states of a draft", () => {
    const pools = recurrent(8);
    for (let text = 0; text < 6; text++) remember(pools, Int32Array.of(text, 1, 2));
    using tables = new BlockTables(pools);
    const tokens = numbers(30);
    compute(tables, tokens, 0, 6);
    expect(pools.states?.freeBlocks).toBe(1);
    // The slot that is free, and those of checkpoints beyond half of the pool.
    expect(tables.states?.alsoAfterEach(6, 15)).toBe(3);
    expect(pools.checkpoints).toMatchObject({ held: 4, evicted: 2 });
    tables.states?.onlyAfterLast();
    expect(pools.states?.freeBlocks).toBe(3);
  });

  it("share no more of a text than its tokens say", () => {
    const pools = recurrent();
    remember(pools, numbers(11), [6]);
    const other = Int32Array.from([...numbers(7), 99, 99, 99, 99, 99]);
    expect(reusable(pools, other)).toBe(6);
  });

  it("let the sequence that they were taken from go on in its own block and slot", () => {
    const pools = recurrent();
    using tables = new BlockTables(pools);
    const tokens = numbers(30);
    compute(tables, tokens, 0, 6);
    const [, block] = tables.groups[0].blocks;
    tables.checkpoint(tokens, 6);
    const kept = tables.states?.slot;
    // The block's positions behind the checkpoint are its own; the slot is not.
    expect(compute(tables, tokens, 6, 7)).toEqual([]);
    expect(tables.groups[0].blocks[1]).toBe(block);
    expect(tables.states?.slot).not.toBe(kept);
    // From now on it writes in place.
    const own = tables.states?.slot;
    compute(tables, tokens, 7, 8);
    expect(tables.states?.slot).toBe(own);
  });

  it("have their block copied before a sequence writes what a longer checkpoint needs", () => {
    const pools = recurrent();
    remember(pools, numbers(7), [5]);
    using other = new BlockTables(pools);
    const tokens = Int32Array.from([...numbers(5), 70, 71, 72]);
    expect(other.reusePrefix(tokens)).toBe(5);
    expect(compute(other, tokens, 5, 8)).toEqual([[1, 2]]);
    expect(reusable(pools, numbers(8))).toBe(7);
  });

  it("are evicted least recently used first, and when they are found they count as used", () => {
    const pools = recurrent(3);
    const texts = [100, 200, 300].map((first) => numbers(6).map((token) => token + first));
    for (const text of texts) remember(pools, text);
    using reader = new BlockTables(pools);
    expect(reader.reusePrefix(Int32Array.from([...texts[0], 1]))).toBe(6);
    reader[Symbol.dispose]();
    remember(pools, numbers(6));
    const found = texts.map((text) => reusable(pools, Int32Array.from([...text, 1])));
    expect(found.map((tokens) => tokens > 0)).toEqual([true, false, true]);
    expect(pools.checkpoints).toMatchObject({ held: 3, evicted: 1 });
  });

  it("go with their blocks, and give their slots back", () => {
    const pools = recurrent();
    remember(pools, numbers(11), [6]);
    const [pool] = pools.groups;
    // The block of the longer tail was released first.
    pool.release(pool.allocate(pool.freeBlocks + 1) ?? []);
    expect(pools.checkpoints?.held).toBe(1);
    pool.release(pool.allocate(pool.blocks) ?? []);
    expect(pools.checkpoints?.held).toBe(0);
    expect(pools.states?.freeBlocks).toBe(8);
    expect(pools.prefixes?.nodes).toBe(0);
  });

  it("make way for a sequence that has no other slot or block", () => {
    const pools = recurrent(1, 2);
    using tables = new BlockTables(pools);
    const tokens = numbers(8);
    compute(tables, tokens, 0, 5);
    tables.checkpoint(tokens, 5);
    expect(pools.checkpoints?.held).toBe(1);
    expect(compute(tables, tokens, 5, 8)).toEqual([]);
    expect(pools.checkpoints?.held).toBe(0);
  });

  it("are never found again when their contents are wrong", () => {
    for (const length of [3, 11]) {
      const pools = recurrent();
      using wrong = new BlockTables(pools);
      const tokens = numbers(length);
      compute(wrong, tokens, 0, length, [2]);
      wrong.checkpoint(tokens, length);
      // Another text that only begins alike.
      remember(pools, Int32Array.from([0, 1, 90]), []);
      wrong.invalidate(tokens);
      expect(reusable(pools, numbers(20))).toBe(0);
      expect(reusable(pools, Int32Array.from([0, 1, 90, 4]))).toBe(3);
    }
  });

  it("need no blocks where a model has no attention", () => {
    const pools = new BlockPools([], BLOCK_TOKENS, { sharesPrefixes: true, states: { slots: 4 } });
    remember(pools, numbers(11), [6]);
    expect(reusable(pools, numbers(9))).toBe(6);
    expect(reusable(pools, numbers(12))).toBe(11);
    pools.states?.allocate(4);
    expect(pools.prefixes?.nodes).toBe(0);
  });
});
