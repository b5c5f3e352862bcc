// The order of a warm-up, what it does beside requests, and what it leaves behind; over a plan that only keeps count.

import { setTimeout as pause } from "node:timers/promises";
import { expect, test, vi } from "vitest";
import type { KvCache, OutputRow, StepInput } from "../backends/contract.js";
import type { StepShape, WarmUpStep } from "../backends/warm-up-step.js";
import { BlockPools } from "../kv-cache/block-pools.js";
import { StepCheck } from "../plan/step-check.js";
import { WarmUp, type WarmUpPlan, type WarmUpProgress } from "./warm-up.js";
import { warmUpInput } from "./warm-up-input.js";

const VOCABULARY = 100;
const CACHE = {
  options: { layers: 1, kvHeads: 1, keyWidth: 8, valueWidth: 8, blocks: 64, blockTokens: 16, type: "f32" },
  disposed: false,
} as KvCache;
const NEVER = new AbortController().signal;

function step(decoding: number, prompt: number, more: Partial<WarmUpStep> = {}): WarmUpStep {
  return { decoding, prompt, longest: Math.max(1, prompt), runs: true, deferred: false, ...more };
}

class CountingPlan implements WarmUpPlan {
  readonly prepared: StepShape[] = [];
  readonly rehearsed: StepShape[] = [];
  readonly ran: number[] = [];
  /** When the first shape was prepared; absent: none was. */
  firstPreparedMs: number | undefined;
  /** What preparing waits for. */
  hold: Promise<void> = Promise.resolve();
  fails = false;

  constructor(readonly steps: readonly WarmUpStep[]) {}

  warmUpSteps(): readonly WarmUpStep[] {
    return this.steps;
  }

  async prepareWarmUp(shape: StepShape): Promise<void> {
    this.firstPreparedMs ??= performance.now();
    this.prepared.push(shape);
    await this.hold;
  }

  async rehearse(shape: StepShape): Promise<void> {
    this.rehearsed.push(shape);
    if (this.fails) throw new Error("no such algorithm");
  }

  async step({ tokens }: StepInput): Promise<readonly OutputRow[]> {
    this.ran.push(tokens.length);
    if (this.fails) throw new Error("no memory");
    return [];
  }
}

function warmUpOf(
  plan: CountingPlan,
  { pools = new BlockPools([{ blocks: 64 }], 16), isBusy = (): boolean => false } = {},
): { readonly warmUp: WarmUp; readonly pools: BlockPools } {
  return {
    pools,
    warmUp: new WarmUp({ plan, store: { kvCache: CACHE, pools }, vocabularySize: VOCABULARY, sequences: 8, isBusy }),
  };
}

test("prepares everything at once, runs in order, and leaves no block behind", async () => {
  const plan = new CountingPlan([
    step(0, 20),
    step(3, 0, { deferred: true }),
    step(2, 0),
    step(0, 40, { runs: false }),
  ]);
  const { warmUp, pools } = warmUpOf(plan);
  const reports: WarmUpProgress[] = [];
  await warmUp.run(NEVER, { onProgress: (progress) => reports.push(progress) });
  expect(plan.prepared).toHaveLength(4);
  expect(plan.ran.slice(0, 2)).toEqual([20, 2]);
  expect(plan.rehearsed).toEqual([plan.steps[3]]);
  expect(reports.map(({ done, steps }) => `${done} of ${steps}`)).toEqual([
    "0 of 3",
    "1 of 3",
    "2 of 3",
    "3 of 3",
    "3 of 3",
  ]);
  expect(warmUp.progress.milliseconds).toBeGreaterThan(0);
  await warmUp.ended;
  expect(plan.ran).toEqual([20, 2, 3]);
  expect(pools.groups[0].freeBlocks).toBe(64);
});

test("is done when what was deferred is prepared, too", async () => {
  const plan = new CountingPlan([step(1, 0, { deferred: true })]);
  let release = (): void => {};
  plan.hold = new Promise((resolve) => (release = resolve));
  const { warmUp } = warmUpOf(plan);
  let isDone = false;
  const running = warmUp.run(NEVER).then(() => (isDone = true));
  await pause(40);
  expect(isDone).toBe(false);
  release();
  await running;
});

test("waits for requests, but not for ever; what was deferred waits until there are none", async () => {
  const plan = new CountingPlan([step(1, 0), step(2, 0, { deferred: true })]);
  let isBusy = true;
  const { warmUp } = warmUpOf(plan, { isBusy: () => isBusy });
  const startMs = performance.now();
  await warmUp.run(NEVER);
  // Requests that waited for the model get their first tokens before it keeps processors busy. The time that it waited is
  // read from its clock: a pause of this test may last longer on a busy machine.
  expect((plan.firstPreparedMs ?? 0) - startMs).toBeGreaterThan(500);
  expect(plan.ran).toEqual([1]);
  await pause(80);
  expect(plan.ran).toEqual([1]);
  isBusy = false;
  await warmUp.ended;
  expect(plan.ran).toEqual([1, 2]);
});

test("requests that the engine does not know of yet count, too", async () => {
  const plan = new CountingPlan([step(1, 0)]);
  const { warmUp } = warmUpOf(plan);
  let isBusy = true;
  const running = warmUp.run(NEVER, { isBusy: () => isBusy });
  await pause(100);
  expect(plan.prepared).toEqual([]);
  isBusy = false;
  await running;
  expect(plan.ran).toEqual([1]);
});

test("goes on after what fails, and gives blocks back", async () => {
  const plan = new CountingPlan([step(0, 20), step(0, 40, { runs: false }), step(2, 0)]);
  plan.fails = true;
  const { warmUp, pools } = warmUpOf(plan);
  const onProgress = (): never => {
    throw new Error("nobody listens");
  };
  await warmUp.run(NEVER, { onProgress });
  expect(plan.ran).toEqual([20, 2]);
  expect(pools.groups[0].freeBlocks).toBe(64);
});

test("leaves out what there are too few free blocks for, and evicts none", async () => {
  const pools = new BlockPools([{ blocks: 4 }], 16);
  const held = pools.groups[0].allocate(1);
  const plan = new CountingPlan([step(0, 40), step(2, 0), step(3, 0)]);
  await warmUpOf(plan, { pools }).warmUp.run(NEVER);
  expect(plan.ran).toEqual([2]);
  expect([held, pools.groups[0].freeBlocks]).toEqual([[0], 3]);
});

test("ends when it is told to, before the next step", async () => {
  const ending = new AbortController();
  const plan = new CountingPlan([step(1, 0), step(2, 0), step(3, 0, { deferred: true })]);
  const { warmUp } = warmUpOf(plan);
  await warmUp.run(ending.signal, { onProgress: ({ done }) => (done === 1 ? ending.abort() : undefined) });
  await warmUp.ended;
  expect(plan.ran).toEqual([1]);
});

test("ends without what is still being prepared", async () => {
  const plan = new CountingPlan([step(1, 0)]);
  plan.hold = new Promise(() => {});
  const { warmUp } = warmUpOf(plan);
  const ending = new AbortController();
  const ended = warmUp.run(ending.signal);
  await vi.waitUntil(() => plan.prepared.length > 0, { timeout: 60_000 });
  ending.abort();
  await ended;
  expect([plan.prepared.length, plan.ran]).toEqual([1, []]);
});

test("where a backend has nothing to warm up, that is all", async () => {
  const plan = new CountingPlan([]);
  const { warmUp } = warmUpOf(plan);
  await warmUp.run(NEVER);
  expect([plan.prepared, plan.ran, warmUp.progress.steps]).toEqual([[], [], 0]);
});

test.each([
  step(1, 0),
  step(5, 0, { longest: 200 }),
  step(0, 50),
  step(7, 33, { longest: 1 }),
  step(4, 1, { longest: 64 }),
])("makes steps that a plan takes: %j", (shape) => {
  const pools = new BlockPools([{ blocks: 64 }], 16);
  const kv = { layers: 1, kvHeads: 1, keyWidth: 8, valueWidth: 8 };
  const check = new StepCheck({ maxTokens: 512, maxOutputs: 64, contextTokens: 256, vocabularySize: VOCABULARY, kv });
  const input = warmUpInput(shape, pools, VOCABULARY);
  if (input === undefined) return expect.unreachable();
  check.check(input.step, CACHE);
  expect(input.step.tokens).toHaveLength(shape.decoding + shape.prompt);
  expect(input.step.outputs).toHaveLength(shape.decoding + (shape.prompt > 0 ? 1 : 0));
  expect(Math.max(...input.step.positions) + 1).toBe(
    Math.max(shape.prompt, shape.decoding > 0 ? shape.longest : 0, Math.min(shape.decoding, 16)),
  );
});

test.each([step(5, 0, { longest: 200 }), step(0, 50), step(7, 33, { longest: 1 })])(
  "reads and writes state slots of its own for recurrent layers: %j",
  (shape) => {
    const pools = new BlockPools([{ blocks: 64 }], 16, { states: { slots: 9 } });
    const kv = { layers: 1, kvHeads: 1, keyWidth: 8, valueWidth: 8, states: [4] };
    const check = new StepCheck({ maxTokens: 512, maxOutputs: 64, contextTokens: 256, vocabularySize: VOCABULARY, kv });
    const cache = { ...CACHE, options: { ...CACHE.options, states: [4], stateSlots: 9 } } as KvCache;
    const input = warmUpInput(shape, pools, VOCABULARY);
    if (input === undefined) return expect.unreachable();
    check.check(input.step, cache);
    expect(input.stateSlots).toHaveLength(input.step.sequenceOffsets.length - 1);
    expect(pools.states?.freeBlocks).toBe(9 - input.stateSlots.length);
    // Too few are left, and checkpoints are not evicted for it.
    expect(warmUpInput(step(9, 0), pools, VOCABULARY)).toBeUndefined();
  },
);
