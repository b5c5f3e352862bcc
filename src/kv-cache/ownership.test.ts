// The laws of the cache, whatever the order of add, fork, grow, commit, withdraw, finish, cancel and evict. Contents are simulated:
// a position holds everything that was written up to it, so a block in the wrong place shows.

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { BlockCopies } from "./block-copies.js";
import { BlockPool } from "./block-pool.js";
import { BlockTable } from "./block-table.js";

const BLOCKS = 12;
const BLOCK_TOKENS = 3;

class SimulatedCache {
  readonly pool: BlockPool;
  readonly slots: string[] = Array(BLOCKS * BLOCK_TOKENS).fill("");
  readonly copies = new BlockCopies((pairs) => {
    const before = [...this.slots];
    for (let index = 0; index < pairs.length; index += 2) {
      for (let slot = 0; slot < BLOCK_TOKENS; slot++) {
        this.slots[pairs[index + 1] * BLOCK_TOKENS + slot] = before[pairs[index] * BLOCK_TOKENS + slot];
      }
    }
  });

  constructor(collides: boolean) {
    this.pool = new BlockPool(BLOCKS, BLOCK_TOKENS, { sharesPrefixes: true, ...(collides ? { hash: () => 1 } : {}) });
  }
}

class SimulatedSequence {
  readonly #cache: SimulatedCache;
  table: BlockTable;
  tokens: number[];
  written = 0;

  constructor(cache: SimulatedCache, tokens: number[], table = new BlockTable(cache.pool)) {
    this.#cache = cache;
    this.tokens = tokens;
    this.table = table;
  }

  adopt(): void {
    if (this.written === this.table.committedTokens)
      this.written += this.table.reusePrefix(Int32Array.from(this.tokens));
  }

  grow(token: number, count: number): void {
    for (let index = 0; index < count; index++) {
      if (this.written === this.tokens.length) this.tokens.push(token);
      if (!this.table.makeWritable(this.written, this.written + 1, (from, to) => this.#cache.copies.add(from, to)))
        return;
      this.#cache.copies.flush();
      const block = this.table.blocks[Math.floor(this.written / BLOCK_TOKENS)];
      this.#cache.slots[block * BLOCK_TOKENS + (this.written % BLOCK_TOKENS)] = this.tokens
        .slice(0, this.written + 1)
        .join();
      this.written++;
    }
  }

  commit(): void {
    this.table.commit(Int32Array.from(this.tokens), this.written);
  }

  withdraw(): void {
    this.table.invalidate();
  }

  fork(): SimulatedSequence {
    const twin = new SimulatedSequence(this.#cache, [...this.tokens], this.table.fork());
    twin.written = this.written;
    return twin;
  }

  truncate(tokens: number): void {
    this.table.truncate(tokens);
    this.tokens.length = Math.max(1, Math.min(this.tokens.length, tokens));
    this.written = Math.min(this.written, tokens);
  }
}

function checkContents({ slots }: SimulatedCache, { table, tokens, written }: SimulatedSequence): void {
  expect(new Set(table.blocks).size).toBe(table.blocks.length);
  for (let position = 0; position < written; position++) {
    const block = table.blocks[Math.floor(position / BLOCK_TOKENS)];
    expect(slots[block * BLOCK_TOKENS + (position % BLOCK_TOKENS)]).toBe(tokens.slice(0, position + 1).join());
  }
}

function checkAccounts({ pool }: SimulatedCache, sequences: readonly SimulatedSequence[]): void {
  const holders = Array(BLOCKS).fill(0);
  for (const { table } of sequences) for (const block of table.blocks) holders[block]++;
  expect(Array.from({ length: BLOCKS }, (_, block) => pool.references(block))).toEqual(holders);
  expect(pool.freeBlocks + pool.cachedBlocks + holders.filter((count) => count > 0).length).toBe(BLOCKS);
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
      arbitrary: fc.record({ kind: fc.constantFrom("adopt", "commit", "commit", "fork", "end" as const), at }),
    },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant("withdraw" as const), at }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant("truncate" as const), at, tokens: fc.nat(15) }) },
    {
      weight: 1,
      arbitrary: fc.record({ kind: fc.constant("evict" as const), blocks: fc.integer({ min: 1, max: 6 }) }),
    },
  );

  it.each([false, true])(
    "are never leaked, owned twice or shared with the wrong contents (all hashes equal: %s)",
    (collides) => {
      fc.assert(
        fc.property(fc.array(action, { minLength: 20, maxLength: 80 }), (actions) => {
          const cache = new SimulatedCache(collides);
          const sequences: SimulatedSequence[] = [];
          for (const step of actions) {
            if (step.kind === "add") sequences.push(new SimulatedSequence(cache, [...step.tokens]));
            else if (step.kind === "evict")
              cache.pool.release(cache.pool.allocate(Math.min(step.blocks, cache.pool.availableBlocks)) ?? []);
            else if (sequences.length > 0) {
              const sequence = sequences[step.at % sequences.length];
              if (step.kind === "grow") sequence.grow(step.token, step.count);
              else if (step.kind === "truncate") sequence.truncate(step.tokens);
              else if (step.kind === "fork") sequences.push(sequence.fork());
              else if (step.kind === "end") sequences.splice(step.at % sequences.length, 1)[0].table[Symbol.dispose]();
              else sequence[step.kind]();
            }
            checkAccounts(cache, sequences);
            for (const sequence of sequences) checkContents(cache, sequence);
          }
          for (const { table } of sequences) table[Symbol.dispose]();
          expect(cache.pool.availableBlocks).toBe(BLOCKS);
          expect(cache.pool.allocate(BLOCKS)).toHaveLength(BLOCKS);
        }),
        { numRuns: 200 },
      );
    },
  );
});
