import { describe, expect, it } from "vitest";
import { schedulerLimits } from "./limits.js";
import { PrefillPace } from "./prefill-pace.js";

const LIMITS = schedulerLimits({ maxStepTokens: 4096, maxStepOutputs: 256 }, { sequences: 64, queued: 10 });
const TARGET_MS = 28;

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

  it("does not forget the size of chunks while only small ones are needed", () => {
    const pace = new PrefillPace(LIMITS);
    for (let step = 0; step < 100; step++) pace.measured({ decoding: 30, prefill: 98 }, 7);
    expect(pace.beside(30)).toBe(512 - 30);
  });

  it("is not misled by steps whose results the host took late", () => {
    const pace = new PrefillPace(LIMITS);
    const stepMs = (tokens: number): number => 8 + tokens / 40;
    for (let step = 0; step < 20; step++) pace.measured({ decoding: 8, prefill: 120 }, stepMs(128));
    const before = pace.beside(8);
    pace.measured({ decoding: 8, prefill: before }, 90);
    pace.measured({ decoding: 8, prefill: before }, 70);
    settle(pace, 8, stepMs);
    expect(pace.beside(8)).toBeGreaterThan(before);
  });

  describe("in a burst", () => {
    const stepMs = (tokens: number): number => 4 + tokens / 28;
    const short = Array.from({ length: 100 }, () => 20);
    const settled = (): PrefillPace => {
      const pace = new PrefillPace(LIMITS);
      settle(pace, 8, stepMs);
      return pace;
    };

    it("takes longer steps for many short prompts, until usual ones are enough", () => {
      const pace = settled();
      const usual = pace.beside(8);
      const longer = pace.beside(8, short);
      expect(stepMs(8 + longer)).toBeGreaterThan(35);
      expect(stepMs(8 + longer)).toBeLessThanOrEqual(45);
      pace.measured({ decoding: 8, prefill: longer }, stepMs(8 + longer));
      expect(pace.beside(48, short.slice(0, 50))).toBeGreaterThan(usual);
      expect(pace.beside(48, short.slice(0, 10))).toBeLessThanOrEqual(usual);
    });

    it("takes none for a few short prompts, nor for long ones", () => {
      const pace = settled();
      expect(pace.beside(8, short.slice(0, 40))).toBe(pace.beside(8));
      expect(
        pace.beside(
          8,
          Array.from({ length: 64 }, () => 700),
        ),
      ).toBe(pace.beside(8));
    });

    it("takes one longer step in 200 if the burst does not end", () => {
      const pace = settled();
      let longerSteps = 0;
      for (let step = 0; step < 2000; step++) {
        const prefill = pace.beside(8, short);
        if (prefill > pace.beside(8)) longerSteps++;
        pace.measured({ decoding: 8, prefill }, stepMs(8 + prefill));
      }
      expect(longerSteps).toBeGreaterThanOrEqual(8 + 9);
      expect(longerSteps).toBeLessThanOrEqual(8 + 10);
    });

    it("takes none on a slow device", () => {
      const pace = new PrefillPace(LIMITS);
      settle(pace, 8, (tokens) => 60 + tokens);
      expect(pace.beside(8, short)).toBe(pace.beside(8));
    });
  });
});
