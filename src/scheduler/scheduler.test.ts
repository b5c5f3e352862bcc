import { describe, expect, it } from "vitest";
import { BlockPools, type PoolGroup } from "../kv-cache/block-pools.js";
import { type SchedulerLimits, schedulerLimits } from "./limits.js";
import type { ScheduledSequence, SequenceOptions } from "./scheduled-sequence.js";
import { Scheduler } from "./scheduler.js";
import type { StepSlice } from "./step-slice.js";

const LIMITS: SchedulerLimits = {
  stepTokens: 32,
  stepOutputs: 8,
  prefillTokens: 16,
  prefillTokensWhileDecoding: 8,
  sequences: 8,
  queued: 10,
};

class Bench {
  readonly pools: BlockPools;
  readonly scheduler: Scheduler;
  readonly copies: number[][] = [];

  constructor(blocks: number, limits: Partial<SchedulerLimits> = {}, windows: readonly PoolGroup[] = []) {
    this.pools = new BlockPools([{ blocks }, ...windows], 4, { sharesPrefixes: true });
    this.scheduler = new Scheduler(this.pools, { ...LIMITS, ...limits }, (from, to) => this.copies.push([from, to]));
  }

  add(promptTokens: number, options: Partial<SequenceOptions> & { readonly first?: number } = {}): ScheduledSequence {
    const tokens = Int32Array.from(
      { length: promptTokens },
      (_, index) => (options.first ?? this.scheduler.queued * 1000) + index,
    );
    const added = this.scheduler.submit({
      tokens,
      capacityTokens: promptTokens + 20,
      priority: 0,
      slots: 1,
      ...options,
    });
    if (typeof added === "string") throw new Error(added);
    return added;
  }

  /** Runs a step; whoever has an output is given the token 7. */
  step(): readonly StepSlice[] {
    const slices = this.scheduler.next() ?? [];
    this.scheduler.advance(slices);
    for (const { sequence, outputs } of slices) if (outputs > 0 && sequence.firstOutput === undefined) sequence.push(7);
    return slices;
  }
}

function counts(slices: readonly StepSlice[]): number[] {
  return slices.map(({ count }) => count);
}

describe("Scheduler", () => {
  it("cuts a prompt into chunks and wants an output of the last token alone", () => {
    const bench = new Bench(40);
    bench.add(37);
    const steps = [bench.step(), bench.step(), bench.step(), bench.step()];
    expect(steps.map(counts)).toEqual([[16], [16], [5], [1]]);
    expect(steps.map(([slice]) => slice.outputs)).toEqual([0, 0, 1, 1]);
  });

  it("puts decoding first and gives prompts a part of the step beside them", () => {
    const bench = new Bench(40);
    const decoder = bench.add(4);
    bench.step();
    bench.add(40);
    const slices = bench.step();
    expect(slices[0]).toMatchObject({ sequence: decoder, count: 1 });
    expect(counts(slices)).toEqual([1, 8]);
  });

  it("shares some prompt tokens of a step in turns, and gives the others to prompts that are done soonest", () => {
    const bench = new Bench(60);
    const [first, second, third] = [bench.add(30), bench.add(3), bench.add(20)];
    const taken = (slices: readonly StepSlice[]): number[] =>
      [first, second, third].map((prompt) => slices.find(({ sequence }) => sequence === prompt)?.count ?? 0);
    expect(taken(bench.step())).toEqual([4, 3, 9]);
    // The second decodes now; the first has its turn, and the third, which is done sooner, gets the rest.
    expect([bench.step(), bench.step(), bench.step()].map(taken)).toEqual([
      [4, 1, 4],
      [4, 1, 4],
      [5, 1, 3],
    ]);
  });

  it("follows a running step although a sequence waits for blocks or slots, but not if it could begin", () => {
    const bench = new Bench(10);
    const decoder = bench.add(20);
    bench.step();
    bench.step();
    bench.add(17, { first: 5000 });
    const next = (): readonly StepSlice[] | undefined => {
      const slices = bench.scheduler.next() ?? [];
      expect(slices.map(({ sequence }) => sequence)).toEqual([decoder]);
      const following = bench.scheduler.following(slices, new Set());
      bench.scheduler.advance(slices);
      return following;
    };
    expect(next()).toMatchObject([{ sequence: decoder, count: 1 }]);

    const crowded = new Bench(40, { sequences: 3 });
    crowded.add(4);
    crowded.step();
    const running = crowded.scheduler.next() ?? [];
    crowded.add(4, { slots: 3 });
    expect(crowded.scheduler.following(running, new Set())).toHaveLength(1);

    const free = new Bench(20);
    free.add(4);
    free.step();
    const slices = free.scheduler.next() ?? [];
    free.add(17);
    expect(free.scheduler.following(slices, new Set())).toBeUndefined();
  });

  it("serves every prompt in turn, and ends one after the other", () => {
    const bench = new Bench(100, { prefillTokens: 8 });
    const prompts = Array.from({ length: 4 }, () => bench.add(40));
    const steps = Array.from({ length: 5 }, () => bench.step());
    const served = steps.map((slices) => slices.map(({ sequence }) => prompts.indexOf(sequence)));
    expect(served).toEqual([[0], [1, 0], [2, 0], [3, 0], [1, 0]]);
    expect(prompts.map(({ computed }) => computed)).toEqual([24, 8, 4, 4]);
  });

  it("lets higher priorities go first, then earlier ones", () => {
    const bench = new Bench(40, { sequences: 1 });
    const [low, high, higher, high2] = [0, 1, 2, 1].map((priority) => bench.add(4, { priority }));
    const order: ScheduledSequence[] = [];
    for (let count = 0; count < 4; count++) {
      const [{ sequence }] = bench.step();
      order.push(sequence);
      bench.scheduler.remove(sequence);
    }
    expect(order.map((sequence) => [low, high, higher, high2].indexOf(sequence))).toEqual([2, 1, 3, 0]);
  });

  it("lets a few more wait for each priority, and then they are overtaken no more", () => {
    const bench = new Bench(40, { sequences: 1, queued: 5 });
    const low = bench.add(4, { priority: -1 });
    let steps = 0;
    // Somebody of a higher priority always waits, and is done after one step.
    while (low.state === "queued" && steps < 5000) {
      bench.add(4, { priority: 0 });
      for (const { sequence } of bench.step()) if (sequence !== low) bench.scheduler.remove(sequence);
      steps++;
    }
    expect(low.state).toBe("running");
    expect(steps).toBeGreaterThan(500);
    expect(steps).toBeLessThan(520);
  });

  it("serves the prompt of a low priority now and then, however many of a higher one are read", () => {
    const bench = new Bench(200, { prefillTokens: 4, prefillTokensWhileDecoding: 4, sequences: 4 });
    const low = bench.add(100, { priority: 0, first: 500 });
    const servedSteps: number[] = [];
    for (let step = 0; step < 200; step++) {
      while (bench.scheduler.running + bench.scheduler.queued < 4)
        bench.add(12, { priority: 1, first: 1000 * (step + 1) });
      for (const { sequence } of bench.step()) {
        if (sequence === low) servedSteps.push(step);
        else if (sequence.remaining <= 1) bench.scheduler.remove(sequence);
      }
    }
    const gaps = servedSteps.slice(1).map((step, index) => step - servedSteps[index]);
    expect(gaps.length).toBeGreaterThan(5);
    expect(Math.min(...gaps)).toBeGreaterThan(4);
    expect(Math.max(...gaps)).toBeLessThan(24);
  });

  it("refuses what can never fit, and what finds the queue full", () => {
    const bench = new Bench(4, { queued: 1, sequences: 2 });
    const options = { tokens: new Int32Array(3), priority: 0, slots: 1 };
    expect(bench.scheduler.submit({ ...options, capacityTokens: 17 })).toBe("too-large");
    expect(bench.scheduler.submit({ ...options, capacityTokens: 16, slots: 9 })).toBe("too-large");
    // Two will run with the next step, and one waits.
    for (let count = 0; count < 3; count++)
      expect(bench.scheduler.submit({ ...options, capacityTokens: 16 })).toBeTypeOf("object");
    expect(bench.scheduler.submit({ ...options, capacityTokens: 16 })).toBe("queue-full");
    bench.step();
    expect(bench.scheduler).toMatchObject({ running: 2, queued: 1 });
    expect(bench.scheduler.submit({ ...options, capacityTokens: 16 })).toBe("queue-full");
  });

  it("counts no place as open that blocks are wanting for", () => {
    const bench = new Bench(4, { queued: 2 });
    bench.add(8, { capacityTokens: 16 });
    bench.add(9, { capacityTokens: 16 });
    bench.step();
    expect(bench.scheduler).toMatchObject({ running: 1, queued: 1 });
    bench.add(3, { capacityTokens: 16 });
    expect(() => bench.add(3, { capacityTokens: 16 })).toThrow("queue-full");
  });

  it("counts places by what those who wait will take of them", () => {
    const bench = new Bench(40, { queued: 1, sequences: 8 });
    bench.add(3, { slots: 6 });
    // Two places are left, so this one waits, and is all that may.
    bench.add(3, { slots: 4 });
    expect(() => bench.add(3, { slots: 1 })).toThrow("queue-full");
    bench.step();
    expect(bench.scheduler).toMatchObject({ running: 1, queued: 1 });
    expect(() => bench.add(3, { slots: 1 })).toThrow("queue-full");
  });

  it("lets nobody find what was spoiled, nor what came before it", () => {
    const bench = new Bench(20, { prefillTokens: 8 });
    const spoiled = bench.add(16, { first: 5 });
    bench.step();
    const slices = bench.scheduler.next() ?? [];
    bench.scheduler.advance(slices, new Set([spoiled]));
    bench.scheduler.remove(spoiled);
    expect(bench.pools.groups[0].freeBlocks).toBe(20);
    const next = bench.add(16, { first: 5 });
    expect(bench.step()).toMatchObject([{ sequence: next, start: 0, count: 8 }]);
    expect(next.cachedTokens).toBe(0);
  });

  it("takes the blocks of the youngest when they run out, which begins again when they are back", () => {
    const bench = new Bench(7, { prefillTokens: 16 });
    const old = bench.add(7, { first: 100 });
    const young = bench.add(7, { first: 200 });
    for (let count = 0; count < 6; count++) bench.step();
    expect(young).toMatchObject({ state: "running", preemptions: 0 });
    while (young.state === "running") bench.step();
    expect(old).toMatchObject({ state: "running", preemptions: 0 });
    expect(young).toMatchObject({ state: "queued", preemptions: 1, computed: 0 });
    const length = young.length;
    bench.scheduler.remove(old);
    const [slice] = bench.step();
    // Its own first blocks were still there.
    expect(slice).toMatchObject({ sequence: young, outputs: 1 });
    expect(slice.start % 4).toBe(0);
    expect(slice.start).toBeGreaterThan(0);
    expect(slice.start + slice.count).toBe(length);
    expect(young.cachedTokens).toBe(0);
  });

  it("finds a prompt that was computed before, but for its last token", () => {
    const bench = new Bench(20);
    bench.scheduler.remove(bench.add(12, { first: 5 }));
    const first = bench.add(12, { first: 5 });
    bench.step();
    bench.scheduler.remove(first);
    const second = bench.add(12, { first: 5 });
    expect(bench.step()).toMatchObject([{ sequence: second, start: 8, count: 4, outputs: 1 }]);
    expect(second.cachedTokens).toBe(8);
  });

  it("runs at once what the cache left one token of", () => {
    const bench = new Bench(20);
    const first = bench.add(9, { first: 5 });
    bench.step();
    bench.scheduler.remove(first);
    bench.add(9, { first: 5 });
    expect(bench.step()).toMatchObject([{ start: 8, count: 1, outputs: 1 }]);
  });

  it("takes over what another one computes meanwhile", () => {
    const bench = new Bench(60, { prefillTokens: 4 });
    const first = bench.add(24, { first: 5 });
    for (let count = 0; count < 3; count++) bench.step();
    const second = bench.add(24, { first: 5 });
    bench.step();
    for (let count = 0; count < 6; count++) bench.step();
    expect(first.cachedTokens + second.cachedTokens).toBe(20);
    expect([...second.tables.groups[0].blocks].slice(0, 5)).toEqual([...first.tables.groups[0].blocks].slice(0, 5));
  });

  it("forks after a prompt, and copies the block that both go on in", () => {
    const bench = new Bench(20);
    const sequence = bench.add(6, { slots: 3 });
    const slices = bench.scheduler.next() ?? [];
    bench.scheduler.advance(slices);
    const twins = [bench.scheduler.fork(sequence), bench.scheduler.fork(sequence)];
    expect(() => bench.scheduler.fork(sequence)).toThrow(RangeError);
    for (const [index, twin] of [sequence, ...twins].entries()) twin.push(index);
    expect(counts(bench.step())).toEqual([1, 1, 1]);
    expect(bench.copies).toHaveLength(2);
    for (const twin of [sequence, ...twins]) bench.scheduler.remove(twin);
    expect(bench.pools.groups[0].availableBlocks).toBe(20);
  });

  it("keeps places for all that will be forked", () => {
    const bench = new Bench(60, { sequences: 4 });
    bench.add(4, { slots: 3 });
    bench.add(4, { slots: 2 });
    bench.step();
    expect(bench.scheduler).toMatchObject({ running: 1, queued: 1 });
  });

  it("computes all but the last token of one that is not ready, and goes on when it is", () => {
    const bench = new Bench(20);
    const sequence = bench.add(6);
    sequence.isReady = false;
    expect(bench.step()).toMatchObject([{ count: 5, outputs: 0 }]);
    expect(bench.scheduler.next()).toBeUndefined();
    sequence.isReady = true;
    expect(bench.step()).toMatchObject([{ count: 1, outputs: 1 }]);
  });

  it("gives every token of a text to embed an output row, and leaves one to each of the others", () => {
    const bench = new Bench(40);
    const text = bench.add(20, { firstOutput: 0, capacityTokens: 20 });
    bench.add(6);
    const steps: (readonly StepSlice[])[] = [];
    while (text.remaining > 0) steps.push(bench.step());
    for (const slices of steps)
      expect(slices.reduce((total, { outputs }) => total + outputs, 0)).toBeLessThanOrEqual(8);
    const own = steps.flat().filter(({ sequence }) => sequence === text);
    expect(own.every(({ count, outputs }) => count === outputs)).toBe(true);
    expect(own.reduce((total, { count }) => total + count, 0)).toBe(20);
  });

  it("leaves half a step to prompts, and an output row to everybody", () => {
    const capacity = { maxStepTokens: 64, maxStepOutputs: 64 };
    expect(schedulerLimits(capacity, { sequences: 1000, queued: 5 })).toEqual({
      stepTokens: 64,
      stepOutputs: 64,
      prefillTokens: 64,
      prefillTokensWhileDecoding: 32,
      sequences: 32,
      queued: 5,
    });
    expect(
      schedulerLimits({ maxStepTokens: 512, maxStepOutputs: 64, chunkTokens: 256 }, { sequences: 1000, queued: 5 }),
    ).toMatchObject({
      prefillTokens: 256,
      prefillTokensWhileDecoding: 32,
      sequences: 64,
    });
  });

  describe("with a sliding window", () => {
    const held = ({ tables }: ScheduledSequence): number[] => tables.groups.map(({ heldBlocks }) => heldBlocks);

    it("takes a window's blocks step by step and releases those that no query sees", () => {
      const bench = new Bench(40, {}, [{ blocks: 9, window: 8 }]);
      const sequence = bench.add(60);
      const counted: number[][] = [];
      while (sequence.computed < 60) {
        bench.step();
        counted.push(held(sequence));
      }
      expect(counted).toEqual([
        [15, 2],
        [15, 2],
        [15, 2],
        [15, 2],
      ]);
      bench.step();
      expect(held(sequence)).toEqual([16, 3]);
    });

    it("shortens a chunk if the window has few blocks left", () => {
      const bench = new Bench(40, {}, [{ blocks: 4, window: 8 }]);
      bench.add(40);
      expect([bench.step(), bench.step(), bench.step()].map(counts)).toEqual([[16], [8], [8]]);
    });

    it("lets the first in order take the blocks of the last, which starts again later", () => {
      const bench = new Bench(60, { sequences: 2 }, [{ blocks: 8, window: 16 }]);
      const [first, second] = [bench.add(40, { first: 0 }), bench.add(12, { first: 500 })];
      const served: ScheduledSequence[] = [];
      for (let step = 0; step < 40 && first.length < 60; step++)
        served.push(...bench.step().map(({ sequence }) => sequence));
      expect(first.length).toBe(60);
      expect(second.preemptions).toBeGreaterThan(0);
      bench.scheduler.remove(first);
      while (second.length < 20) bench.step();
      bench.scheduler.remove(second);
      for (const pool of bench.pools.groups) expect(pool.availableBlocks).toBe(pool.blocks);
    });

    it("runs a sequence of any length in a window's few blocks, and rejects one whose window does not fit", () => {
      const bench = new Bench(1000, {}, [{ blocks: 4, window: 8 }]);
      expect(
        bench.scheduler.submit({ tokens: Int32Array.of(1), capacityTokens: 3000, priority: 0, slots: 1 }),
      ).toBeTypeOf("object");
      const narrow = new Bench(1000, {}, [{ blocks: 3, window: 8 }]);
      expect(narrow.scheduler.submit({ tokens: Int32Array.of(1), capacityTokens: 3000, priority: 0, slots: 1 })).toBe(
        "too-large",
      );
    });

    it("demands windows and one step instead of whole sequences", () => {
      const bench = new Bench(1000, {}, [{ blocks: 500, window: 8 }]);
      bench.add(400);
      bench.add(400);
      expect(bench.scheduler.demand()).toEqual({
        blocks: [2 * 105 + 1, 2 * 2 * 3 + 4],
        largest: [105, 7],
        stateSlots: 0,
      });
    });
  });
});
