// What is kept, and for how long.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { TextCache } from "./text-cache.js";

describe("a cache of texts", () => {
  test("drops what was used least recently", () => {
    const cache = new TextCache({ texts: 2, characters: 100 });
    cache.set("a", "1");
    cache.set("b", "2");
    expect(cache.get("a")).toBe("1");
    cache.set("c", "3");
    expect(["a", "b", "c"].map((key) => cache.get(key))).toStrictEqual(["1", undefined, "3"]);
  });

  test("stays within its limits and never gives a text for another key", () => {
    const operation = fc.record({ key: fc.constantFrom("a", "b", "c", "d", "e"), length: fc.nat(12) });
    fc.assert(
      fc.property(fc.array(operation), (operations) => {
        const cache = new TextCache({ texts: 3, characters: 10 });
        const latest = new Map<string, string>();
        for (const { key, length } of operations) {
          cache.set(key, key.repeat(length));
          latest.set(key, key.repeat(length));
          let characters = 0;
          let kept = 0;
          for (const [known, text] of latest) {
            const found = cache.get(known);
            if (found === undefined) continue;
            expect(found).toBe(text);
            characters += found.length;
            kept++;
          }
          expect(kept).toBe(cache.size);
          expect(characters).toBe(cache.characters);
          expect(kept).toBeLessThanOrEqual(3);
          expect(characters).toBeLessThanOrEqual(10);
        }
      }),
    );
  });
});
