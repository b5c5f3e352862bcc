// The laws of the cache, whatever the order of add, fork, grow, commit, withdraw, finish, cancel and evict. Contents are simulated:
// a position holds everything that was written up to it, so a block in the wrong place shows.

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { firstVisible } from "../graph/cache-groups.js";
import type { KvReach } from "../graph/program.js";
import { BlockCopies } from "./block-copies.js";
import { BlockPools } from "./block-pools.js";
import { BlockTables } from "./block-tables.js";

const BLOCKS = 12;
const BLOCK_TOKENS = 3;

class SimulatedCache {
  readonly pools: BlockPools;
  /** What each position of each cache group holds. */
  readonly slots: string[][];
  readonly copies: BlockCopies[];

  constructor(reaches: readonly KvReach[], collides: boolean) {
    const groups = reaches.map((reach) => ({ blocks: BLOCKS, ...reach }));
    this.pools = new BlockPools(groups, BLOCK_TOKENS, {
      sharesPrefixes: true,
      ...(collides ? { hash: () => 1 } : {}),
    });
    this.slots = reaches.map(() => Array(BLOCKS * BLOCK_TOKENS).fill(""));
    this.copies = reaches.map((_, group) => new BlockCopies((pairs) => this.#copy(pairs, group)));
  }

  #copy(pairs: Int32Array, group: number): void {
    const slots = this.slots[group];
    const before = [...slots];
    for (let index = 0; index < pairs.length; index += 2) {
      for (let slot = 0; slot < BLOCK_TOKENS; slot++) {
        slots[pairs[index + 1] * BLOCK_TOKENS + slot] = before[pairs[index] * BLOCK_TOKENS + slot];
      }
    }
  }
}

class SimulatedSequence {
  readonly #cache: SimulatedCache;
  tables: BlockTables;
  tokens: number[];
  written = 0;

  constructor(cache: SimulatedCache, tokens: number[], tables = new BlockTables(cache.pools)) {
    this.#cache = cache;
    this.tokens = tokens;
    this.tables = tables;
  }

  adopt(): void {
    if (this.written === this.tables.committedTokens)
      this.written += this.tables.reusePrefix(Int32Array.from(this.tokens));
  }

  grow(token: number, count: number): void {
    for (let index = 0; index < count; index++) {
      if (this.written === this.tokens.length) this.tokens.push(token);
      const { copies, slots } = this.#cache;
      const copy = (from: number, to: number, group: number): void => copies[group].add(from, to);
      if (!this.tables.makeWritable(this.written, this.written + 1, copy)) return;
      for (const [group, { blocks }] of this.tables.groups.entries()) {
        copies[group].flush();
        const block = blocks[Math.floor(this.written / BLOCK_TOKENS)];
        const slot = block * BLOCK_TOKENS + (this.written % BLOCK_TOKENS);
        slots[group][slot] = this.tokens.slice(0, this.written + 1).join();
      }
      this.written++;
    }
  }

  commit(): void {
    this.tables.commit(Int32Array.from(this.tokens), this.written);
  }

  forget(): void {
    this.tables.releaseUnseen(this.written);
  }

  withdraw(): void {
    this.tables.invalidate();
  }

  fork(): SimulatedSequence {
    const twin = new SimulatedSequence(this.#cache, [...this.tokens], this.tables.fork());
    twin.written = this.written;
    return twin;
  }

  truncate(tokens: number): void {
    this.written = Math.min(this.written, tokens);
    this.written = this.tables.truncate(this.written);
    this.tokens.length = Math.max(1, Math.min(this.tokens.length, tokens));
  }
}

/** Every position that the next query sees holds what was written there, in each group. */
function checkContents({ slots, pools }: SimulatedCache, { tables, tokens, written }: SimulatedSequence): void {
  for (const [group, { blocks, firstHeld }] of tables.groups.entries()) {
    const held = blocks.subarray(firstHeld);
    expect(new Set(held).size).toBe(held.length);
    for (let position = firstVisible(pools.reaches[group], written); position < written; position++) {
      const index = Math.floor(position / BLOCK_TOKENS);
      expect(index).toBeGreaterThanOrEqual(firstHeld);
      expect(slots[group][blocks[index] * BLOCK_TOKENS + (position % BLOCK_TOKENS)]).toBe(
        tokens.slice(0, position + 1).join(),
      );
    }
  }
}

function checkAccounts({ pools }: SimulatedCache, sequences: readonly SimulatedSequence[]): void {
  for (const [group, pool] of pools.groups.entries()) {
    const holders = Array(BLOCKS).fill(0);
    for (const { tables } of sequences) {
      const { blocks, firstHeld } = tables.groups[group];
      for (const block of blocks.subarray(firstHeld)) holders[block]++;
    }
    expect(Array.from({ length: BLOCKS }, (_, block) => pool.references(block))).toEqual(holders);
    expect(pool.freeBlocks + pool.cachedBlocks + holders.filter((count) => count > 0).length).toBe(BLOCKS);
  }
}

describe("blocks", () => {
  // Few sequences and few tokens, so that they meet.
  const at = fc.nat(3);
  const action = fc.oneof(
    {
      weight: 1,
      arbitrary: fc.record({
        kind: fc.constant("add" as const),
        tokens: fc.array(fc.nat(1), { minLength: 1, maxLength: 14 }),
      }),
    },
    {
      weight: 5,
      arbitrary: fc.record({
        kind: fc.constant("grow" as const),
        at,
        token: fc.nat(1),
        count: fc.integer({ min: 1, max: 7 }),
      }),
    },
    {
      weight: 5,
      arbitrary: fc.record({
        kind: fc.constantFrom("adopt", "commit", "commit", "forget", "forget", "fork", "end" as const),
        at,
      }),
    },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant("withdraw" as const), at }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant("truncate" as const), at, tokens: fc.nat(15) }) },
    {
      weight: 1,
      arbitrary: fc.record({
        kind: fc.constant("evict" as const),
        group: fc.nat(2),
        blocks: fc.integer({ min: 1, max: 6 }),
      }),
    },
  );
  const limit = fc.integer({ min: 1, max: 16 });
  const reach: fc.Arbitrary<KvReach> = fc.oneof(
    fc.constant({}),
    fc.record({ window: limit }),
    fc.record({ chunk: limit }),
    fc.record({ window: limit, chunk: limit }),
  );
  const groups = fc.oneof(fc.constant<KvReach[]>([{}]), fc.array(reach, { minLength: 1, maxLength: 3 }));

  it.each([false, true])(
    "are never leaked, owned twice or shared with the wrong contents (all hashes equal: %s)",
    (collides) => {
      fc.assert(
        fc.property(groups, fc.array(action, { minLength: 20, maxLength: 80 }), (reaches, actions) => {
          const cache = new SimulatedCache(reaches, collides);
          const { pools } = cache;
          const sequences: SimulatedSequence[] = [];
          for (const step of actions) {
            if (step.kind === "add") sequences.push(new SimulatedSequence(cache, [...step.tokens]));
            else if (step.kind === "evict") {
              const pool = pools.groups[step.group % reaches.length];
              pool.release(pool.allocate(Math.min(step.blocks, pool.availableBlocks)) ?? []);
            } else if (sequences.length > 0) {
              const sequence = sequences[step.at % sequences.length];
              if (step.kind === "grow") sequence.grow(step.token, step.count);
              else if (step.kind === "truncate") sequence.truncate(step.tokens);
              else if (step.kind === "fork") sequences.push(sequence.fork());
              else if (step.kind === "end") sequences.splice(step.at % sequences.length, 1)[0].tables[Symbol.dispose]();
              else sequence[step.kind]();
            }
            checkAccounts(cache, sequences);
            for (const sequence of sequences) checkContents(cache, sequence);
          }
          for (const { tables } of sequences) tables[Symbol.dispose]();
          for (const pool of pools.groups) {
            expect(pool.availableBlocks).toBe(BLOCKS);
            expect(pool.allocate(BLOCKS)).toHaveLength(BLOCKS);
          }
          // Nothing is left in the index without blocks.
          expect(pools.prefixes?.nodes).toBe(0);
        }),
        { numRuns: 150 },
      );
    },
  );
});
