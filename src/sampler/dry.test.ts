import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { DryPenalties, type DryOptions } from "./dry.js";
import { TokenHistory } from "./history.js";

const BASE: DryOptions = { dryMultiplier: 1, dryBase: 2, dryAllowedLength: 2, dryPenaltyTokens: -1, dryBreakers: [] };

function find(tokens: readonly number[], options: Partial<DryOptions> = {}): Record<number, number> {
  const history = new TokenHistory(0);
  for (const token of tokens) history.push(token);
  return Object.fromEntries(new DryPenalties({ ...BASE, ...options }).find(history));
}

describe("DRY", () => {
  it("penalises what followed the last time, by the length of the repetition", () => {
    expect(find([1, 2, 3, 4, 9, 1, 2])).toEqual({ 3: 1 });
    expect(find([1, 2, 3, 4, 9, 1, 2, 3])).toEqual({ 4: 2 });
    expect(find([1, 2, 3, 4, 5, 9, 1, 2, 3, 4])).toEqual({ 5: 4 });
    expect(find([1, 2, 3, 4, 9, 1, 2, 3], { dryMultiplier: 0.5, dryBase: 3 })).toEqual({ 4: 1.5 });
  });

  it("allows repetitions that are short enough", () => {
    expect(find([1, 2, 9, 1])).toEqual({});
    expect(find([1, 2, 3, 9, 1, 2], { dryAllowedLength: 3 })).toEqual({});
    expect(find([1, 2, 9, 1], { dryAllowedLength: 1 })).toEqual({ 2: 1 });
  });

  it("takes the longest of several repetitions", () => {
    expect(find([1, 2, 7, 0, 5, 1, 2, 7, 8, 5, 1, 2])).toEqual({ 7: 2 });
    expect(find([1, 2, 7, 8, 1, 2, 6, 8, 1, 2])).toEqual({ 7: 1, 6: 2 });
  });

  it("looks no further back than its window", () => {
    expect(find([1, 2, 3, 9, 1, 2], { dryPenaltyTokens: 6 })).toEqual({ 3: 1 });
    expect(find([1, 2, 3, 9, 1, 2], { dryPenaltyTokens: 5 })).toEqual({});
  });

  it("does not follow a repetition past a breaker", () => {
    const tokens = [1, 2, 3, 4, 5, 9, 1, 2, 3, 4];
    expect(find(tokens, { dryBreakers: [[1]] })).toEqual({ 5: 2 });
    expect(find(tokens, { dryBreakers: [[3]] })).toEqual({});
    expect(find(tokens, { dryBreakers: [[1, 2]] })).toEqual({ 5: 1 });
    expect(find(tokens, { dryBreakers: [[2, 1], [7]] })).toEqual({ 5: 4 });
  });

  it("stays finite and fast in an endless loop", () => {
    const startMs = performance.now();
    const penalties = find(
      Array.from({ length: 1_000_000 }, () => 1),
      { dryBase: 1000 },
    );
    expect(penalties[1]).toBe(1e30);
    // One pass takes milliseconds; comparing every pair would take many minutes.
    expect(performance.now() - startMs).toBeLessThan(60_000);
  });

  it("finds what a search by hand finds", () => {
    const tokens = fc.array(fc.nat(2), { maxLength: 40 });
    fc.assert(
      fc.property(tokens, fc.integer({ min: 1, max: 4 }), (written, allowed) => {
        const expected: Record<number, number> = {};
        for (let next = 1; next < written.length; next++) {
          let length = 0;
          while (length < next && written[next - 1 - length] === written[written.length - 1 - length]) length += 1;
          if (length < allowed) continue;
          expected[written[next]] = Math.max(expected[written[next]] ?? 0, 2 ** (length - allowed));
        }
        expect(find(written, { dryAllowedLength: allowed })).toEqual(expected);
      }),
    );
  });
});
