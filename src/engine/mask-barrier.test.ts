import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { MaskBarrier } from "./mask-barrier.js";

describe("MaskWatch", () => {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  /** How long it waits by the clock that stands still otherwise. */
  async function waitedMs(watch: MaskBarrier): Promise<number> {
    const startMs = performance.now();
    let endMs: number | undefined;
    const waited = watch.wait().then(() => (endMs = performance.now()));
    for (let count = 0; count < 20 && endMs === undefined; count++) await vi.advanceTimersByTimeAsync(1);
    await waited;
    return (endMs ?? Number.NaN) - startMs;
  }

  it("waits for the masks that were asked for, and no longer", async () => {
    const watch = new MaskBarrier();
    expect(watch.isWaiting).toBe(false);
    const rounds = [watch.asked(), watch.asked()];
    expect(watch.isWaiting).toBe(true);
    setTimeout(() => rounds.forEach((round) => watch.settled(round)), 2);
    expect(await waitedMs(watch)).toBe(2);
    expect(watch.isWaiting).toBe(false);
  });

  it("waits for a slow one once, whoever else asks later", async () => {
    const watch = new MaskBarrier();
    const slow = watch.asked();
    expect(await waitedMs(watch)).toBe(5);
    expect(watch.isWaiting).toBe(false);
    const quick = watch.asked();
    expect(watch.isWaiting).toBe(true);
    setTimeout(() => watch.settled(quick), 1);
    expect(await waitedMs(watch)).toBe(1);
    // The slow one comes in a round that is not its own, and is nobody's answer there.
    const next = watch.asked();
    watch.settled(slow);
    expect(watch.isWaiting).toBe(true);
    watch.settled(next);
    expect(watch.isWaiting).toBe(false);
  });

  it("does not wait where nothing is asked for", async () => {
    expect(await waitedMs(new MaskBarrier())).toBe(0);
  });
});
