import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Progress } from "./progress.js";

class Screen {
  readonly isTTY: boolean;
  readonly written: string[] = [];

  constructor(isTTY: boolean) {
    this.isTTY = isTTY;
  }

  write(text: string): void {
    this.written.push(text);
  }
}

describe("Progress", () => {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ["performance", "setInterval", "clearInterval"] });
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it("says nothing about work of less than a second", () => {
    const screen = new Screen(true);
    using progress = new Progress("opening", screen);
    vi.advanceTimersByTime(999);
    progress.update("loading");
    progress.end();
    vi.advanceTimersByTime(5000);
    expect(screen.written).toEqual([]);
  });

  it("writes at most one plain line a second, and repeats itself only every ten", () => {
    const screen = new Screen(false);
    using progress = new Progress("step 0", screen);
    for (let step = 1; step <= 30; step++) {
      vi.advanceTimersByTime(100);
      progress.update(`step ${step}`);
    }
    expect(screen.written).toHaveLength(3);
    vi.advanceTimersByTime(9000);
    expect(screen.written.filter((line) => line.includes("step 30"))).toHaveLength(1);
    vi.advanceTimersByTime(3000);
    expect(screen.written.filter((line) => line.includes("step 30"))).toHaveLength(2);
    for (const line of screen.written) expect(line).toMatch(/^rocmforge: step \d+, [\d.]+ s\n$/);
  });

  it("rewrites one line of a terminal and takes it away at the end", () => {
    const screen = new Screen(true);
    const progress = new Progress("loading", screen);
    vi.advanceTimersByTime(2000);
    progress.end();
    progress.end();
    expect(screen.written).toEqual([
      "\r\u001b[Krocmforge: loading, 1.0 s",
      "\r\u001b[Krocmforge: loading, 2.0 s",
      "\r\u001b[K",
    ]);
  });
});
