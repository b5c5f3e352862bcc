import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { LruCache } from "./lru.js";

describe("LruCache", () => {
  test("evicts the least recently used entry", () => {
    const cache = new LruCache<string, number>({ maxEntries: 2 });
    cache.set("a", 1);
    cache.set("b", 2);
    expect(cache.get("a")).toBe(1);
    cache.set("c", 3);
    expect(["a", "b", "c"].map((key) => cache.peek(key))).toEqual([1, undefined, 3]);
  });

  test("does not use an entry that is only looked at", () => {
    const cache = new LruCache<string, number>({ maxEntries: 2 });
    cache.set("a", 1);
    cache.set("b", 2);
    expect(cache.peek("a")).toBe(1);
    cache.set("c", 3);
    expect([...cache.values()]).toEqual([2, 3]);
  });

  test("does not keep an entry that is too heavy alone, nor the one that it replaces", () => {
    const cache = new LruCache<string, string>({ maxWeight: 3, weightOf: ({ length }) => length });
    cache.set("a", "12");
    cache.set("a", "1234");
    expect([cache.size, cache.weight]).toEqual([0, 0]);
  });

  test("reports every entry that is removed, once", () => {
    const removed: string[] = [];
    const cache = new LruCache<string, number>({
      maxEntries: 2,
      onRemove: (value, key) => removed.push(`${key}${value}`),
    });
    for (const key of ["a", "b", "c"]) cache.set(key, 1);
    cache.set("c", 2);
    cache.delete("b");
    cache.clear();
    expect(removed).toEqual(["a1", "c1", "b1", "c2"]);
  });

  test("stays within its limits and never gives a value for another key", () => {
    const operation = fc.record({ key: fc.constantFrom("a", "b", "c", "d", "e"), length: fc.nat(12) });
    fc.assert(
      fc.property(fc.array(operation), (operations) => {
        const cache = new LruCache<string, string>({ maxEntries: 3, maxWeight: 10, weightOf: ({ length }) => length });
        const latest = new Map<string, string>();
        for (const { key, length } of operations) {
          cache.set(key, key.repeat(length));
          latest.set(key, key.repeat(length));
          const kept = [...latest].filter(([known]) => cache.peek(known) !== undefined);
          expect(kept.map(([known]) => cache.peek(known))).toEqual(kept.map(([, text]) => text));
          expect(kept.length).toBe(cache.size);
          expect(kept.reduce((sum, [, text]) => sum + text.length, 0)).toBe(cache.weight);
          expect(cache.size).toBeLessThanOrEqual(3);
          expect(cache.weight).toBeLessThanOrEqual(10);
        }
      }),
    );
  });
});
