import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { OccurrenceFinder } from "./occurrence-finder.js";

describe("OccurrenceFinder", () => {
  it("finds what a search for each string finds", () => {
    const letters = fc.string({ unit: fc.constantFrom("a", "b", "c"), maxLength: 30 });
    const strings = fc.uniqueArray(fc.string({ unit: fc.constantFrom("a", "b", "c"), minLength: 1, maxLength: 5 }), {
      maxLength: 20,
    });
    fc.assert(
      fc.property(letters, strings, (text, wanted) => {
        const finder = new OccurrenceFinder(wanted.map((string, id) => ({ id, bytes: Buffer.from(string) })));
        const expected = [...wanted.keys()].filter((id) => text.includes(wanted[id]));
        expect([...finder.find(Buffer.from(text))].toSorted((left, right) => left - right)).toEqual(expected);
      }),
    );
  });

  it("does not mind strings that share a beginning, however many", () => {
    const strings = Array.from({ length: 200_000 }, (_, id) => ({ id, bytes: Buffer.from(`aaa${id}`) }));
    const finder = new OccurrenceFinder(strings);
    const found = finder.find(Buffer.from(`${"a".repeat(100_000)}123`));
    expect([...found].toSorted((left, right) => left - right)).toEqual([1, 12, 123]);
  });
});
