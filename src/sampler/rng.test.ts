import { describe, expect, it } from "vitest";
import { RandomSource } from "./rng.js";

describe("random source", () => {
  it("stays in [0, 1), spreads evenly, and does not repeat early", () => {
    const random = new RandomSource(0);
    const bins = Array.from({ length: 16 }, () => 0);
    const seen = new Set<number>();
    for (let draw = 0; draw < 32_000; draw++) {
      const value = random.next();
      expect(value >= 0 && value < 1).toBe(true);
      bins[Math.floor(value * 16)] += 1;
      seen.add(value);
    }
    expect(seen.size).toBe(32_000);
    for (const bin of bins) expect(Math.abs(bin - 2000)).toBeLessThan(220);
  });

  it("differs for neighbouring seeds and for the upper halves of seeds", () => {
    const first = [0, 1, 2, 2 ** 32, 2 ** 32 + 1, 2 ** 53 - 1].map((seed) => new RandomSource(seed).next());
    expect(new Set(first).size).toBe(first.length);
  });

  it("keeps its sequence from release to release", () => {
    const random = new RandomSource(42);
    expect([random.next(), random.next(), random.next()]).toMatchInlineSnapshot(`
      [
        0.5050102413976953,
        0.9405579038492657,
        0.11231382347963592,
      ]
    `);
  });
});
