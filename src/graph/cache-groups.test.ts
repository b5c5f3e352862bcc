import { describe, expect, it } from "vitest";
import { firstVisible, kvGroups, kvPlaces, reachTokens, withCacheGroups } from "./cache-groups.js";
import type { AttentionOperation, Operation } from "./operation.js";

const SHAPE = { layers: 4, kvHeads: 2, keyWidth: 8, valueWidth: 8 } as const;

function attention(layer: number, reach: Pick<AttentionOperation, "window" | "chunk"> = {}): Operation {
  return {
    kind: "attention",
    layer,
    query: 0,
    heads: 2,
    kvHeads: 2,
    keyWidth: 8,
    valueWidth: 8,
    scale: 1,
    out: 1,
    ...reach,
  };
}

describe("withCacheGroups", () => {
  it("joins the layers that queries see equally far back", () => {
    const operations = [
      attention(0, { window: 16 }),
      attention(1),
      attention(2, { window: 16 }),
      attention(3, { chunk: 64 }),
    ];
    const { groups } = withCacheGroups(SHAPE, operations, 1000);
    expect(groups).toEqual([{ layers: [0, 2], window: 16 }, { layers: [1] }, { layers: [3], chunk: 64 }]);
    expect(kvPlaces(groups ?? [])).toEqual([
      { group: 0, index: 0 },
      { group: 1, index: 0 },
      { group: 0, index: 1 },
      { group: 2, index: 0 },
    ]);
  });

  it("has one group, and says nothing, if everything is seen or the context is no longer than the windows", () => {
    expect(withCacheGroups(SHAPE, [attention(0), attention(2)], 1000)).toBe(SHAPE);
    expect(withCacheGroups(SHAPE, [attention(0, { window: 16 }), attention(1, { chunk: 20 })], 16)).toBe(SHAPE);
    expect(kvGroups(SHAPE)).toEqual([{ layers: [0, 1, 2, 3] }]);
    expect(kvGroups({ ...SHAPE, layers: 0 })).toEqual([]);
  });

  it("keeps a layer that several operations read for as long as one of them sees it", () => {
    const reachOf = (...operations: readonly Operation[]) =>
      withCacheGroups({ ...SHAPE, layers: 1 }, operations, 1000).groups;
    expect(reachOf(attention(0, { window: 16 }), attention(0, { window: 32 }))).toEqual([{ layers: [0], window: 32 }]);
    expect(reachOf(attention(0, { window: 16 }), attention(0))).toBeUndefined();
    expect(reachOf(attention(0, { window: 16 }), attention(0, { chunk: 32 }))).toBeUndefined();
    expect(reachOf(attention(0, { window: 16, chunk: 64 }), attention(0, { window: 8, chunk: 32 }))).toEqual([
      { layers: [0], window: 16 },
    ]);
  });
});

describe("firstVisible", () => {
  it("never decreases, and leaves no more positions than the reach", () => {
    for (const reach of [{}, { window: 1 }, { window: 5 }, { chunk: 1 }, { chunk: 6 }, { window: 5, chunk: 8 }]) {
      let before = 0;
      for (let position = 0; position < 40; position++) {
        const first = firstVisible(reach, position);
        expect(first).toBeGreaterThanOrEqual(before);
        expect(first).toBeLessThanOrEqual(position);
        expect(position + 1 - first).toBeLessThanOrEqual(reachTokens(reach));
        before = first;
      }
    }
    expect(firstVisible({ window: 5 }, 9)).toBe(5);
    expect(firstVisible({ chunk: 6 }, 11)).toBe(6);
    expect(firstVisible({ chunk: 6 }, 12)).toBe(12);
    expect(firstVisible({ window: 3, chunk: 6 }, 7)).toBe(6);
  });
});
