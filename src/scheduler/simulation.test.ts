// Thousands of requests through the scheduler, without a device: everybody ends, nobody is overtaken within a priority,
// whoever writes writes in every step, blocks hold what they should, and all of them come back.

import fc from "fast-check";
import { sharedTokens } from "./prefill-budget.js";
import { describe, expect, it } from "vitest";
import { expectAtMost, expectIs } from "../../test/support/quick-expect.js";
import { firstVisible } from "../graph/cache-groups.js";
import type { KvReach } from "../graph/program.js";
import { BlockPools } from "../kv-cache/block-pools.js";
import { BlockCopies } from "../kv-cache/block-copies.js";
import { sequenceBlocks } from "../backends/cache-size.js";
import { schedulerLimits } from "./limits.js";
import type { ScheduledSequence } from "./scheduled-sequence.js";
import { Scheduler } from "./scheduler.js";
import type { StepSlice } from "./step-slice.js";

const BLOCK_TOKENS = 4;

/** Small numbers from a seed, the same everywhere. */
function dice(seed: number): (sides: number) => number {
  let state = seed >>> 0;
  return (sides) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * sides);
  };
}

interface Request {
  readonly prompt: Int32Array;
  readonly maxTokens: number;
  readonly choices: number;
  readonly priority: number;
  /** Of a text that is scored. */
  readonly firstOutput?: number;
  /** Tokens after which it is cancelled. */
  readonly cancelAfter: number;
}

interface World {
  readonly blocks: number;
  readonly requests: number;
  readonly priorities: number;
  readonly seed: number;
  readonly sharesPrefixes: boolean;
  /** Cache groups beside full attention. */
  readonly windows?: readonly (KvReach & { readonly blocks: number })[];
  /** State slots of a model with recurrent layers. */
  readonly stateSlots?: number;
  /** Whether no layer has attention. */
  readonly hasNoBlocks?: boolean;
}

class Simulation {
  readonly pools: BlockPools;
  readonly scheduler: Scheduler;
  readonly roll: (sides: number) => number;
  /** What each slot of each cache group holds: the hash of everything up to it. */
  readonly slots: readonly Int32Array[];
  readonly copies: readonly BlockCopies[];
  readonly owners = new Map<ScheduledSequence, { readonly request: Request; written: number }>();
  readonly admitted: ScheduledSequence[] = [];
  readonly lastServed = new Map<ScheduledSequence, number>();
  readonly waiting: Request[];
  /** What each state slot holds: the hash of all tokens of its sequence. */
  readonly states: Int32Array;
  cachedTokens = 0;
  longestWaitSteps = 0;
  refused = 0;
  steps = 0;

  constructor(world: World) {
    const { blocks, requests, priorities, seed, sharesPrefixes, windows = [], stateSlots, hasNoBlocks } = world;
    this.roll = dice(seed);
    this.pools = new BlockPools(hasNoBlocks === true ? [] : [{ blocks }, ...windows], BLOCK_TOKENS, {
      sharesPrefixes,
      ...(stateSlots === undefined ? {} : { states: { slots: stateSlots } }),
    });
    this.states = new Int32Array(stateSlots ?? 0);
    this.slots = this.pools.groups.map((pool) => new Int32Array(pool.blocks * BLOCK_TOKENS));
    this.copies = this.slots.map(
      (slots) =>
        new BlockCopies((pairs) => {
          for (let index = 0; index < pairs.length; index += 2) {
            slots.copyWithin(
              pairs[index + 1] * BLOCK_TOKENS,
              pairs[index] * BLOCK_TOKENS,
              (pairs[index] + 1) * BLOCK_TOKENS,
            );
          }
        }),
    );
    const limits = schedulerLimits({ maxStepTokens: 32, maxStepOutputs: 12 }, { sequences: 12, queued: 30 });
    this.scheduler = new Scheduler(this.pools, limits, (from, to, group) => this.copies[group].add(from, to));
    this.waiting = Array.from({ length: requests }, () => this.request(priorities));
  }

  request(priorities: number): Request {
    const { roll } = this;
    const family = roll(4);
    const prompt = Int32Array.from({ length: 1 + roll(30) }, (_, index) => (index < 16 ? family : roll(3)));
    const maxTokens = 1 + roll(20);
    const scored = roll(8) === 0 ? { firstOutput: roll(prompt.length) } : undefined;
    return {
      prompt,
      maxTokens,
      choices: scored !== undefined ? 1 : 1 + (roll(4) === 0 ? roll(3) : 0),
      priority: roll(priorities),
      ...scored,
      cancelAfter: roll(4) === 0 ? roll(20) : 100,
    };
  }

  submit(): void {
    for (let count = this.roll(4); count > 0 && this.waiting.length > 0; count--) {
      const request = this.waiting[this.waiting.length - 1];
      const { prompt, maxTokens, choices, priority, firstOutput } = request;
      const capacityTokens = prompt.length + (firstOutput !== undefined ? 0 : maxTokens);
      const sequence = this.scheduler.submit({
        tokens: prompt,
        capacityTokens,
        priority,
        slots: choices,
        checkpoints: [this.roll(prompt.length)],
        ...(firstOutput === undefined ? {} : { firstOutput }),
      });
      if (sequence === "queue-full") return;
      this.waiting.pop();
      if (sequence === "too-large") this.refused++;
      else this.owners.set(sequence, { request, written: 0 });
    }
  }

  end(sequence: ScheduledSequence): void {
    this.cachedTokens += sequence.cachedTokens;
    this.scheduler.remove(sequence, this.roll(3) > 0);
    this.owners.delete(sequence);
    this.lastServed.delete(sequence);
  }

  /**
   * What the device would do: slots get the hash of all tokens up to theirs, made from what lies in the slot before. A
   * window that begins with the token's own position cannot see that one.
   */
  compute(slices: readonly StepSlice[]): void {
    for (const copies of this.copies) copies.flush();
    if (this.pools.states !== undefined) this.computeStates(slices);
    for (const { sequence, start, count } of slices) {
      const { tokens, tables } = sequence;
      for (const [group, { blocks }] of tables.groups.entries()) {
        for (let position = start; position < start + count; position++) {
          const isSeen = firstVisible(this.pools.reaches[group], position) < position;
          const before = isSeen ? this.slots[group][slotOf(blocks, position - 1)] : hashBefore(tokens, position);
          this.slots[group][slotOf(blocks, position)] = (Math.imul(before, 31) + tokens[position] + 1) | 0;
        }
      }
    }
  }

  /** States are read before any is written, and none is written that another sequence or a checkpoint holds. */
  computeStates(slices: readonly StepSlice[]): void {
    const before = slices.map(({ sequence: { tables } }) => this.states[tables.states?.slot ?? -1] ?? 1);
    const written = new Set<number>();
    for (const [index, { sequence, start, count }] of slices.entries()) {
      const { tokens, tables } = sequence;
      if (before[index] !== hashBefore(tokens, start)) throw new Error(`other states than those after ${start} tokens`);
      const writes = new Int32Array(count);
      tables.states?.fillWrites(writes, start);
      for (const [row, slot] of writes.entries()) {
        if (slot < 0) continue;
        const isOwn = this.pools.states?.references(slot) === 1 && !this.pools.states.isCached(slot);
        if (!isOwn || written.has(slot)) throw new Error(`state slot ${slot} belongs to something else`);
        written.add(slot);
        this.states[slot] = hashBefore(tokens, start + row + 1);
      }
      if (writes[count - 1] < 0) throw new Error("the last token's states are written nowhere");
    }
  }

  /** Requests end, and clients disconnect, while a step runs. */
  disturb(slices: readonly StepSlice[]): void {
    for (const { sequence } of slices) if (this.owners.has(sequence) && this.roll(60) === 0) this.end(sequence);
  }

  /** Chooses tokens, forks after prompts, and ends what has ended. */
  finish(slices: readonly StepSlice[]): void {
    const spoiled = new Set(slices.map(({ sequence }) => sequence).filter(() => this.roll(400) === 0));
    if (this.roll(100) === 0) return this.fail(slices);
    this.scheduler.advance(slices, spoiled);
    for (const sequence of spoiled) if (this.owners.has(sequence)) this.end(sequence);
    for (const { sequence, outputs } of slices) {
      const owner = this.owners.get(sequence);
      if (outputs === 0 || owner === undefined) continue;
      if (sequence.firstOutput !== undefined) {
        if (sequence.remaining === 0) this.end(sequence);
        continue;
      }
      while (sequence.slots > 1) {
        const twin = this.scheduler.fork(sequence);
        this.owners.set(twin, { request: owner.request, written: 0 });
        this.write(twin);
      }
      this.write(sequence);
    }
  }

  /** A step that failed: so do its requests. */
  fail(slices: readonly StepSlice[]): void {
    this.scheduler.discard(slices);
    for (const { sequence } of slices) {
      this.scheduler.remove(sequence);
      this.owners.delete(sequence);
      this.lastServed.delete(sequence);
    }
  }

  write(sequence: ScheduledSequence): void {
    const owner = this.owners.get(sequence);
    if (owner === undefined) return;
    sequence.push(this.roll(3));
    owner.written++;
    if (owner.written >= owner.request.maxTokens) this.end(sequence);
    // Masks that are late.
    else sequence.isReady = this.roll(10) > 0;
  }

  /** Cancelled in any phase, and late masks that arrive. */
  interfere(): void {
    for (const [sequence, { request, written }] of this.owners) {
      if (written >= request.cancelAfter || (request.cancelAfter === 0 && this.roll(5) === 0)) this.end(sequence);
      else if (!sequence.isReady && this.roll(2) === 0) sequence.isReady = true;
    }
  }
}

function hashBefore(tokens: Int32Array, end: number): number {
  let hash = 1;
  for (let position = 0; position < end; position++) hash = (Math.imul(hash, 31) + tokens[position] + 1) | 0;
  return hash;
}

function slotOf(blocks: Int32Array, position: number): number {
  return blocks[Math.floor(position / BLOCK_TOKENS)] * BLOCK_TOKENS + (position % BLOCK_TOKENS);
}

function checkStep(simulation: Simulation, slices: readonly StepSlice[], decoding: readonly ScheduledSequence[]): void {
  const { limits } = simulation.scheduler;
  const total = (count: (slice: StepSlice) => number): number => slices.reduce((sum, slice) => sum + count(slice), 0);
  expectAtMost(
    total(({ count }) => count),
    limits.stepTokens,
  );
  expectAtMost(
    total(({ outputs }) => outputs),
    limits.stepOutputs,
  );
  const served = new Set(slices.map(({ sequence }) => sequence));
  expectIs(served.size, slices.length);
  const missed = decoding.filter((decoder) => decoder.state === "running" && !served.has(decoder));
  expectIs(missed.length, 0);
  for (const { sequence, start } of slices) {
    if (sequence.state !== "running" || sequence.computed !== start)
      expect.fail(`a slice from ${start} of a ${sequence.state} sequence`);
  }
  for (const [group, reach] of simulation.pools.reaches.entries()) {
    const written = new Set<number>();
    for (const { sequence, start, count } of slices) {
      const { blocks, heldBlocks, firstHeld } = sequence.tables.groups[group];
      for (let position = start; position < start + count; position++) written.add(slotOf(blocks, position));
      // No more than the step needs, or what a sequence is admitted with.
      const end = Math.max(Math.ceil((start + count) / BLOCK_TOKENS), blocks.length);
      expectIs(heldBlocks, end - firstHeld);
      const most = sequenceBlocks(reach, sequence.length, { stepTokens: limits.stepTokens, blockTokens: BLOCK_TOKENS });
      expectAtMost(heldBlocks, most);
    }
    expectIs(
      written.size,
      total(({ count }) => count),
    );
  }
}

/** What the queries of the step see is there, in every group. */
function checkContents({ slots, pools }: Simulation, slices: readonly StepSlice[]): void {
  for (const { sequence, start, count } of slices) {
    let hash = 1;
    for (let position = 0; position < start + count; position++) {
      hash = (Math.imul(hash, 31) + sequence.tokens[position] + 1) | 0;
      for (const [group, reach] of pools.reaches.entries()) {
        if (position < firstVisible(reach, start)) continue;
        if (slots[group][slotOf(sequence.tables.groups[group].blocks, position)] !== hash)
          expect.fail(`position ${position} of group ${group} holds something else`);
      }
    }
  }
}

function noteTurns(simulation: Simulation, slices: readonly StepSlice[]): void {
  for (const sequence of simulation.owners.keys()) {
    if (sequence.state !== "running") simulation.lastServed.delete(sequence);
    else if (!simulation.lastServed.has(sequence)) {
      simulation.lastServed.set(sequence, simulation.steps);
      if (sequence.preemptions === 0 && sequence.queuePosition.fork === 0) simulation.admitted.push(sequence);
    }
  }
  for (const { sequence } of slices) simulation.lastServed.set(sequence, simulation.steps);
  for (const [sequence, step] of simulation.lastServed) {
    if (sequence.remaining > 1)
      simulation.longestWaitSteps = Math.max(simulation.longestWaitSteps, simulation.steps - step);
  }
}

function run(world: World): Simulation {
  const simulation = new Simulation(world);
  let idleSteps = 0;
  while (simulation.waiting.length > 0 || simulation.owners.size > 0) {
    simulation.submit();
    const { scheduler } = simulation;
    const decoding = [...simulation.owners.keys()].filter(
      ({ state, isDecoding, isReady }) => state === "running" && isDecoding && isReady,
    );
    const slices = scheduler.next() ?? [];
    simulation.steps++;
    checkStep(simulation, slices, decoding);
    noteTurns(simulation, slices);
    simulation.compute(slices);
    checkContents(simulation, slices);
    simulation.disturb(slices);
    simulation.finish(slices);
    simulation.interfere();
    // A step may be empty while everybody waits for a mask; never for long.
    idleSteps = slices.length === 0 ? idleSteps + 1 : 0;
    expectAtMost(idleSteps, 49);
  }
  expect(simulation.scheduler).toMatchObject({ running: 0, queued: 0 });
  for (const pool of simulation.pools.groups) expect(pool.availableBlocks).toBe(pool.blocks);
  const { states, checkpoints, groups, prefixes } = simulation.pools;
  expect(states?.availableBlocks).toBe(states?.blocks);
  // Everything can be evicted, and then nothing is left.
  for (const pool of [...groups, ...(states === undefined ? [] : [states])])
    expect(pool.allocate(pool.blocks)).toHaveLength(pool.blocks);
  expect([checkpoints?.held ?? 0, prefixes?.nodes ?? 0]).toEqual([0, 0]);
  return simulation;
}

describe("a simulated day", () => {
  it.each([
    [14, true],
    [14, false],
    [60, true],
    [400, true],
  ])("ends 2,000 requests over %i blocks (prefixes shared: %s)", (blocks, sharesPrefixes) => {
    const simulation = run({ blocks, requests: 2000, priorities: 1, seed: blocks, sharesPrefixes });
    expect(simulation.refused).toBe(0);
    if (blocks === 14) expect(simulation.scheduler.preemptions).toBeGreaterThan(10);
    // Nobody overtakes: those that run were admitted as they came.
    const arrivals = simulation.admitted.map(({ queuePosition }) => queuePosition.arrival);
    expect(arrivals).toEqual(arrivals.toSorted((left, right) => left - right));
    // A prompt that runs is served at the latest when each of the others has had its turn.
    const { sequences, prefillTokensWhileDecoding } = simulation.scheduler.limits;
    const shared = sharedTokens(prefillTokensWhileDecoding, BLOCK_TOKENS);
    expect(simulation.longestWaitSteps).toBeLessThanOrEqual(Math.ceil((sequences * BLOCK_TOKENS) / shared) + 1);
  });

  it("ends whatever the sizes, and refuses what cannot run alone", () => {
    const world = fc.record({
      blocks: fc.integer({ min: 1, max: 40 }),
      requests: fc.integer({ min: 1, max: 60 }),
      priorities: fc.integer({ min: 1, max: 3 }),
      seed: fc.nat(),
      sharesPrefixes: fc.boolean(),
    });
    fc.assert(
      fc.property(world, (drawn) => {
        const { refused } = run(drawn);
        if (drawn.blocks * BLOCK_TOKENS >= 50) expect(refused).toBe(0);
      }),
      { numRuns: 60 },
    );
  });

  const window = fc.integer({ min: 1, max: 40 });
  const reach: fc.Arbitrary<KvReach> = fc.oneof(
    fc.record({ window }),
    fc.record({ chunk: window }),
    fc.record({ window, chunk: window }),
  );

  it("ends whatever the windows and their blocks, with everything in place that a query sees", () => {
    const world = fc.record({
      blocks: fc.integer({ min: 13, max: 60 }),
      requests: fc.integer({ min: 1, max: 60 }),
      priorities: fc.integer({ min: 1, max: 3 }),
      seed: fc.nat(),
      sharesPrefixes: fc.boolean(),
      windows: fc.array(
        fc.tuple(reach, fc.integer({ min: 0, max: 30 })).map(([drawn, more]) => {
          const least = sequenceBlocks(drawn, 50, { stepTokens: BLOCK_TOKENS, blockTokens: BLOCK_TOKENS });
          return { ...drawn, blocks: least + more };
        }),
        { minLength: 1, maxLength: 2 },
      ),
    });
    fc.assert(
      fc.property(world, (drawn) => {
        expect(run(drawn).refused).toBe(0);
      }),
      { numRuns: 60 },
    );
  });

  it.each([8, 200])("ends 1,000 requests over %i blocks of a window", (blocks) => {
    const windows = [{ window: 9, blocks }];
    const simulation = run({ blocks: 60, requests: 1000, priorities: 1, seed: blocks, sharesPrefixes: true, windows });
    expect(simulation.refused).toBe(0);
    if (blocks === 8) expect(simulation.scheduler.preemptions).toBeGreaterThan(10);
    const arrivals = simulation.admitted.map(({ queuePosition }) => queuePosition.arrival);
    expect(arrivals).toEqual(arrivals.toSorted((left, right) => left - right));
  });

  it("ends whatever the state slots and blocks, with the states of every sequence in place", () => {
    const world = fc.record({
      blocks: fc.integer({ min: 13, max: 60 }),
      requests: fc.integer({ min: 1, max: 60 }),
      priorities: fc.integer({ min: 1, max: 3 }),
      seed: fc.nat(),
      sharesPrefixes: fc.boolean(),
      stateSlots: fc.integer({ min: 1, max: 40 }),
      hasNoBlocks: fc.boolean(),
      windows: fc.constantFrom([], [{ window: 9, blocks: 30 }]),
    });
    fc.assert(
      fc.property(world, (drawn) => {
        expect(run(drawn).refused).toBe(0);
      }),
      { numRuns: 100 },
    );
  });

  it.each([6, 40])("ends 1,000 requests over %i state slots and reuses prefixes", (stateSlots) => {
    const simulation = run({
      blocks: 100,
      requests: 1000,
      priorities: 1,
      seed: stateSlots,
      sharesPrefixes: true,
      stateSlots,
    });
    expect(simulation.refused).toBe(0);
    expect(simulation.cachedTokens).toBeGreaterThan(stateSlots === 40 ? 3000 : 100);
    const arrivals = simulation.admitted.map(({ queuePosition }) => queuePosition.arrival);
    expect(arrivals).toEqual(arrivals.toSorted((left, right) => left - right));
  });
});
