// The laws of the cache, whatever the order of add, fork, grow, commit, withdraw, finish, cancel and evict. Contents are simulated:
// a position, and a state slot, holds everything that was written up to it, so a block or a slot in the wrong place shows.

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { expectAtMost, expectIs } from "../../test/support/quick-expect.js";
import { firstVisible } from "../graph/cache-groups.js";
import type { KvReach } from "../graph/program.js";
import { BlockCopies } from "./block-copies.js";
import { BlockPools } from "./block-pools.js";
import { BlockTables } from "./block-tables.js";

const BLOCKS = 12;
const BLOCK_TOKENS = 3;
const STATE_SLOTS = 7;
/** A token of a draft that is cut off. */
const REJECTED = 9;

interface World {
  readonly reaches: readonly KvReach[];
  /** Whether all hashes of the prefix index are equal. */
  readonly collides: boolean;
  readonly isRecurrent: boolean;
}

class SimulatedCache {
  readonly pools: BlockPools;
  /** What each position of each cache group holds. */
  readonly slots: string[][];
  readonly copies: BlockCopies[];
  /** The tokens whose states each state slot holds. */
  readonly states: string[] = Array(STATE_SLOTS).fill("");
  readonly sequences: SimulatedSequence[] = [];

  constructor(reaches: readonly KvReach[], { collides, isRecurrent }: Omit<World, "reaches">) {
    const groups = reaches.map((reach) => ({ blocks: BLOCKS, ...reach }));
    this.pools = new BlockPools(groups, BLOCK_TOKENS, {
      sharesPrefixes: true,
      ...(collides ? { hash: () => 1 } : {}),
      ...(isRecurrent ? { states: { slots: STATE_SLOTS } } : {}),
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

function require(holds: boolean, otherwise: string): void {
  if (!holds) throw new Error(otherwise);
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
    this.written += this.tables.reusePrefix(Int32Array.from(this.tokens), this.written);
  }

  grow(token: number, count: number, accepted: number): void {
    if (this.tables.states !== undefined) return this.#growStates(token, count, accepted);
    for (let index = 0; index < count; index++) {
      if (this.written === this.tokens.length) this.tokens.push(token);
      if (!this.tables.makeWritable(this.written, this.written + 1, this.#copy)) return;
      this.#write();
    }
  }

  /**
   * One step of several tokens, which also writes the states after its first tokens. If not all are accepted, the others
   * are a draft that is cut off.
   */
  #growStates(token: number, wanted: number, accepted: number): void {
    const start = this.written;
    const { states } = this.tables;
    if (states === undefined) return;
    while (this.tokens.length < start + wanted) this.tokens.push(token);
    const count = accepted < wanted ? 1 + states.alsoAfterEach(start, wanted - 1) : wanted;
    if (!this.tables.makeWritable(start, start + count, this.#copy)) return states.onlyAfterLast();
    for (let tokens = start + 1; tokens < start + count; tokens += 2) if (!states.alsoAfter(tokens)) break;
    const { tokens } = this;
    const end = start + Math.min(accepted, count);
    this.tokens = tokens.map((each, index) => (index < end ? each : REJECTED));
    const read = states.slot === -1 ? "" : this.#cache.states[states.slot];
    require(read === this.tokens.slice(0, start).join(), `the states of ${read} are read`);
    const writes = new Int32Array(count);
    states.fillWrites(writes, start);
    for (const slot of writes) {
      this.#write();
      if (slot < 0) continue;
      const isHeld = this.#cache.sequences.some((each) => each !== this && each.tables.states?.held.includes(slot));
      require(!isHeld && this.#cache.pools.states?.isCached(slot) === false, `slot ${slot} is held by something else`);
      this.#cache.states[slot] = this.tokens.slice(0, this.written).join();
    }
    require(writes[count - 1] >= 0, "the last states are written nowhere");
    this.tokens = tokens;
    this.written = end;
    this.commit();
  }

  readonly #copy = (from: number, to: number, group: number): void => this.#cache.copies[group].add(from, to);

  #write(): void {
    const { copies, slots } = this.#cache;
    for (const [group, { blocks }] of this.tables.groups.entries()) {
      copies[group].flush();
      const block = blocks[Math.floor(this.written / BLOCK_TOKENS)];
      const slot = block * BLOCK_TOKENS + (this.written % BLOCK_TOKENS);
      slots[group][slot] = this.tokens.slice(0, this.written + 1).join();
    }
    this.written++;
  }

  checkpoint(): void {
    this.tables.checkpoint(Int32Array.from(this.tokens), this.written);
  }

  commit(): void {
    this.tables.commit(Int32Array.from(this.tokens), this.written);
  }

  forget(): void {
    this.tables.releaseUnseen(this.written);
  }

  withdraw(): void {
    this.tables.invalidate(Int32Array.from(this.tokens));
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
function checkContents({ slots, pools, states }: SimulatedCache, { tables, tokens, written }: SimulatedSequence): void {
  if (tables.states !== undefined) {
    const { slot } = tables.states;
    expect(tables.states.tokens).toBe(written);
    expect(slot < 0 ? "" : states[slot]).toBe(tokens.slice(0, written).join());
  }
  for (const [group, { blocks, firstHeld }] of tables.groups.entries()) {
    const held = blocks.subarray(firstHeld);
    expectIs(new Set(held).size, held.length);
    for (let position = firstVisible(pools.reaches[group], written); position < written; position++) {
      const index = Math.floor(position / BLOCK_TOKENS);
      expectAtMost(firstHeld, index);
      const found = slots[group][blocks[index] * BLOCK_TOKENS + (position % BLOCK_TOKENS)];
      expectIs(found, tokens.slice(0, position + 1).join());
    }
  }
}

/** Every state slot is free, held as often as it is referenced, or kept for one checkpoint. */
function checkStates({ pools, sequences }: SimulatedCache): void {
  const { states, checkpoints } = pools;
  if (states === undefined) return;
  const holders = Array(STATE_SLOTS).fill(0);
  for (const { tables } of sequences) for (const slot of tables.states?.held ?? []) holders[slot]++;
  expect(Array.from({ length: STATE_SLOTS }, (_, slot) => states.references(slot))).toEqual(holders);
  expect(states.freeBlocks + states.cachedBlocks + holders.filter((count) => count > 0).length).toBe(STATE_SLOTS);
  const known = Array.from({ length: STATE_SLOTS }, (_, slot) => states.isCached(slot)).filter(Boolean);
  expect(checkpoints?.held).toBe(known.length);
}

function checkAccounts({ pools, sequences }: SimulatedCache): void {
  for (const [group, pool] of pools.groups.entries()) {
    const holders = Array(BLOCKS).fill(0);
    for (const { tables } of sequences) {
      const { blocks, firstHeld } = tables.groups[group];
      for (const block of blocks.subarray(firstHeld)) holders[block]++;
    }
    for (const [block, count] of holders.entries()) expectIs(pool.references(block), count);
    expectIs(pool.freeBlocks + pool.cachedBlocks + holders.filter((count) => count > 0).length, BLOCKS);
  }
}

describe("blocks", () => {
  // Few sequences and few tokens, so that they meet.
  const at = fc.nat(3);
  // Mostly the same token, so that prefixes are found again.
  const token = fc.oneof({ weight: 9, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: fc.constant(1) });
  const action = fc.oneof(
    {
      weight: 2,
      arbitrary: fc.record({
        kind: fc.constant("add" as const),
        adopts: fc.boolean(),
        tokens: fc.array(token, { minLength: 1, maxLength: 14 }),
      }),
    },
    {
      weight: 5,
      arbitrary: fc.record({
        kind: fc.constant("grow" as const),
        at,
        token,
        count: fc.integer({ min: 1, max: 7 }),
        accepted: fc.integer({ min: 1, max: 14 }),
      }),
    },
    {
      weight: 5,
      arbitrary: fc.record({
        kind: fc.constantFrom("adopt", "commit", "commit", "forget", "fork", "end", "end", "checkpoint" as const),
        at,
      }),
    },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant("withdraw" as const), at }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant("truncate" as const), at, tokens: fc.nat(15) }) },
    {
      weight: 1,
      arbitrary: fc.record({
        kind: fc.constant("evict" as const),
        group: fc.nat(3),
        blocks: fc.integer({ min: 4, max: BLOCKS }),
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
  const several = fc.oneof(fc.constant<KvReach[]>([{}]), fc.array(reach, { minLength: 1, maxLength: 3 }));
  // A recurrent model may have no attention at all.
  const anyWorld = fc.record({
    reaches: fc.oneof({ weight: 5, arbitrary: several }, { weight: 1, arbitrary: fc.constant<KvReach[]>([]) }),
    isRecurrent: fc.boolean(),
  });

  it.each([false, true])(
    "are never leaked, owned twice or shared with the wrong contents (all hashes equal: %s)",
    (collides) => {
      fc.assert(
        fc.property(
          anyWorld,
          fc.array(action, { minLength: 20, maxLength: 80 }),
          ({ reaches, isRecurrent }, actions) => {
            const cache = new SimulatedCache(reaches, { collides, isRecurrent });
            const { pools, sequences } = cache;
            const all = pools.states === undefined ? pools.groups : [...pools.groups, pools.states];
            for (const step of actions) {
              if (step.kind === "add") {
                const sequence = new SimulatedSequence(cache, [...step.tokens]);
                sequences.push(sequence);
                if (step.adopts) sequence.adopt();
              } else if (step.kind === "evict") {
                const pool = all[step.group % Math.max(1, all.length)];
                pool?.release(pool.allocate(Math.min(step.blocks, pool.availableBlocks)) ?? []);
              } else if (sequences.length > 0) {
                const sequence = sequences[step.at % sequences.length];
                if (step.kind === "grow") sequence.grow(step.token, step.count, step.accepted);
                else if (step.kind === "truncate") sequence.truncate(step.tokens);
                else if (step.kind === "fork") sequences.push(sequence.fork());
                else if (step.kind === "end")
                  sequences.splice(step.at % sequences.length, 1)[0].tables[Symbol.dispose]();
                else sequence[step.kind]();
              }
              checkAccounts(cache);
              checkStates(cache);
              for (const sequence of sequences) checkContents(cache, sequence);
            }
            for (const { tables } of sequences) tables[Symbol.dispose]();
            for (const pool of all) {
              expect(pool.availableBlocks).toBe(pool.blocks);
              expect(pool.allocate(pool.blocks)).toHaveLength(pool.blocks);
            }
            // Nothing is left in the index without blocks.
            expect(pools.prefixes?.nodes).toBe(0);
            expect(pools.checkpoints?.held ?? 0).toBe(0);
          },
        ),
        { numRuns: 250 },
      );
    },
  );
});
