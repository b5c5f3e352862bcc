import { describe, expect, it } from "vitest";
import { cover, type Properties } from "./cover.js";

const ITEMS: readonly Properties[] = [1, 2, 3].flatMap((type) =>
  [1, 2, 4, 8].flatMap((tokens) => [0, 1].map((gated) => ({ type, tokens, gated }))),
);

const pairs = (items: readonly Properties[]): ReadonlySet<string> =>
  new Set(
    items.flatMap(({ type, tokens, gated }) => [
      `${type} ${tokens}`,
      `${type} gated ${gated}`,
      `tokens ${tokens} gated ${gated}`,
    ]),
  );

describe("a cover", () => {
  it("shows every value with few items", () => {
    const chosen = cover(ITEMS, (item) => item, 1);
    expect(chosen).toHaveLength(4);
    expect(
      new Set(chosen.flatMap(({ type, tokens, gated }) => [`type ${type}`, `tokens ${tokens}`, `gated ${gated}`])).size,
    ).toBe(3 + 4 + 2);
  });

  it("shows every pair of values that occurs", () => {
    const chosen = cover(ITEMS, (item) => item, 2);
    expect(pairs(chosen)).toEqual(pairs(ITEMS));
    expect(chosen.length).toBeLessThan(ITEMS.length);
  });

  it("keeps what has no properties, or one", () => {
    expect(cover([{}], (item) => item, 2)).toEqual([{}]);
    expect(cover([{ type: 1 }, { type: 2 }], (item) => item, 2)).toEqual([{ type: 1 }, { type: 2 }]);
  });
});
