// What is kept, and for how long.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { RenderedText } from "../prompt-text.js";
import { TextCache } from "./text-cache.js";

const plain = (text: string): RenderedText => ({ text, untrusted: [] });

describe("a cache of texts", () => {
  test("drops what was used least recently", () => {
    const cache = new TextCache({ texts: 2, characters: 100 });
    cache.set("a", plain("1"));
    cache.set("b", plain("2"));
    expect(cache.get("a")).toStrictEqual(plain("1"));
    cache.set("c", plain("3"));
    expect(["a", "b", "c"].map((key) => cache.get(key)?.text)).toStrictEqual(["1", undefined, "3"]);
  });

  test("stays within its limits and never gives a text for another key", () => {
    const operation = fc.record({ key: fc.constantFrom("a", "b", "c", "d", "e"), length: fc.nat(12) });
    fc.assert(
      fc.property(fc.array(operation), (operations) => {
        const cache = new TextCache({ texts: 3, characters: 10 });
        const latest = new Map<string, string>();
        for (const { key, length } of operations) {
          cache.set(key, plain(key.repeat(length)));
          latest.set(key, key.repeat(length));
          let characters = 0;
          let kept = 0;
          for (const [known, text] of latest) {
            const found = cache.get(known);
            if (found === undefined) continue;
            expect(found.text).toBe(text);
            characters += found.text.length;
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

  test("counts what a text's borders take", () => {
    const cache = new TextCache({ texts: 9, characters: 10 });
    cache.set("a", { text: "12", untrusted: [0, 1] });
    expect(cache.characters).toBe(10);
    cache.set("b", { text: "", untrusted: [0, 1, 2, 3] });
    expect(cache.get("b")).toBeUndefined();
  });
});
