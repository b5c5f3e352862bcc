import { describe, expect, it } from "vitest";
import { schedulerLimits } from "./limits.js";
import { PrefillPace } from "./prefill-pace.js";

const LIMITS = schedulerLimits({ maxStepTokens: 4096, maxStepOutputs: 256 }, { sequences: 64, queued: 10 });
const TARGET_MS = 26;

/** Runs mixed steps on a device whose steps take `millisecondsOf` their tokens, and returns the last one's. */
function settle(pace: PrefillPace, decoding: number, millisecondsOf: (tokens: number) => number): number {
  for (let step = 0; step < 100; step++) {
    const prefill = pace.beside(decoding);
    pace.measured({ decoding, prefill }, millisecondsOf(decoding + prefill));
  }
  return millisecondsOf(decoding + pace.beside(decoding));
}

describe("PrefillPace", () => {
  it.each([
    { fixedMs: 8, tokensPerMs: 40 },
    { fixedMs: 4, tokensPerMs: 15 },
    { fixedMs: 1, tokensPerMs: 100 },
  ])("finds the chunk whose step takes the target time: $fixedMs ms and $tokensPerMs tokens per ms", (device) => {
    const settled = settle(new PrefillPace(LIMITS), 64, (tokens) => device.fixedMs + tokens / device.tokensPerMs);
    expect(settled).toBeGreaterThan(TARGET_MS - 2 * (128 / device.tokensPerMs) - device.fixedMs / 4);
    expect(settled).toBeLessThanOrEqual(TARGET_MS);
  });

  it("does not shrink chunks where smaller ones are slower", () => {
    // Below 384 tokens another kernel computes them.
    const stepMs = (tokens: number): number => (tokens < 384 ? 5 + tokens / 6 : 12 + tokens / 28);
    const pace = new PrefillPace(LIMITS);
    expect(settle(pace, 64, stepMs)).toBeLessThan(31);
    expect(pace.beside(64)).toBe(384 - 64);
  });

  it("fills whole tiles of tokens", () => {
    const pace = new PrefillPace(LIMITS);
    for (const decoding of [1, 17, 64, 200]) expect((pace.beside(decoding) + decoding) % 128).toBe(0);
  });

  it("gives a slow device the least, and never more than a step's chunk to a fast one", () => {
    const [slow, fast] = [new PrefillPace(LIMITS), new PrefillPace(LIMITS)];
    settle(slow, 1, (tokens) => 10 + tokens * 5);
    settle(fast, 1, () => 0.1);
    expect(slow.beside(1)).toBe(32);
    expect(fast.beside(1)).toBe(4095);
  });

  it("lets steps take longer where decoding itself is slow", () => {
    const pace = new PrefillPace(LIMITS);
    for (let step = 0; step < 20; step++) pace.measured({ decoding: 4, prefill: 0 }, 100);
    expect(settle(pace, 4, (tokens) => 60 + tokens / 2)).toBeGreaterThan(150);
  });

  it("is not misled by the first steps, which load the model, nor by a single slow one", () => {
    const pace = new PrefillPace(LIMITS);
    const stepMs = (tokens: number): number => 8 + tokens / 40;
    pace.measured({ decoding: 1, prefill: 0 }, 700);
    expect(settle(pace, 8, stepMs)).toBeLessThanOrEqual(TARGET_MS);
    const before = pace.beside(8);
    pace.measured({ decoding: 8, prefill: before }, 3000);
    settle(pace, 8, stepMs);
    expect(pace.beside(8)).toBe(before);
  });

  it("learns nothing from steps without decoding", () => {
    const pace = new PrefillPace(LIMITS);
    const before = pace.beside(0);
    pace.measured({ decoding: 0, prefill: 4096 }, 500);
    expect(pace.beside(0)).toBe(before);
  });

  it("follows steps that become slower or faster", () => {
    const pace = new PrefillPace(LIMITS);
    settle(pace, 64, (tokens) => 4 + tokens / 60);
    const before = pace.beside(64);
    settle(pace, 64, (tokens) => 8 + tokens / 30);
    expect(pace.beside(64)).toBeLessThan(before);
    for (let round = 0; round < 60; round++) settle(pace, 64, (tokens) => 4 + tokens / 60);
    expect(pace.beside(64)).toBeGreaterThanOrEqual(before - 128);
  });
});
