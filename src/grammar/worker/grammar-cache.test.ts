import { describe, expect, test } from "vitest";
import { GrammarError } from "../../errors.js";
import { GrammarCache } from "./grammar-cache.js";
import { grammarLimit } from "../limits.js";

const grammar = (characters: number): Promise<{ readonly characters: number }> => Promise.resolve({ characters });
const failed = async (error: Error): Promise<never> => {
  throw error;
};
const settle = (): Promise<void> => new Promise(setImmediate);
const MANY = 2 ** 20;

describe("a cache of grammars", () => {
  test("knows the ones used last, by their number", () => {
    const cache = new GrammarCache();
    for (let index = 0; index < 512; index++) cache.set(`${index}`, grammar(1));
    expect(cache.get("0")).toBeDefined();
    cache.set("more", grammar(1));
    expect([cache.get("0"), cache.get("1"), cache.get("more")].map((found) => found !== undefined)).toEqual([
      true,
      false,
      true,
    ]);
  });

  test("knows no more than it may hold, by their characters", async () => {
    const cache = new GrammarCache();
    for (let index = 0; index < 20; index++) cache.set(`${index}`, grammar(MANY));
    await settle();
    expect(
      Array.from({ length: 20 }, (_, index) => index).filter((index) => cache.get(`${index}`) !== undefined),
    ).toEqual(Array.from({ length: 16 }, (_, index) => index + 4));
    // What is set again is not counted twice.
    for (let count = 0; count < 20; count++) cache.set("19", grammar(MANY));
    await settle();
    expect(
      Array.from({ length: 20 }, (_, index) => index).filter((index) => cache.get(`${index}`) !== undefined),
    ).toHaveLength(16);
  });

  test("counts a grammar once, under however many keys", async () => {
    const cache = new GrammarCache();
    const value = { characters: 9 * MANY };
    for (const key of ["asked", "text", "asked otherwise"]) cache.set(key, Promise.resolve(value));
    cache.set("other", grammar(7 * MANY));
    await settle();
    const known = (): readonly string[] =>
      ["asked", "text", "asked otherwise", "other", "more"].filter((key) => cache.get(key) !== undefined);
    expect(known()).toEqual(["asked", "text", "asked otherwise", "other"]);
    // Its characters go with its last key, not before.
    cache.set("more", grammar(MANY));
    await settle();
    expect(known()).toEqual(["other", "more"]);
    cache.set("text", Promise.resolve(value));
    await settle();
    expect(known()).toEqual(["text", "more"]);
  });

  test("keeps what is at fault itself, and forgets what may go better another time", async () => {
    const cache = new GrammarCache();
    cache.set("invalid", failed(new GrammarError("GRAMMAR_INVALID", "wrong")));
    cache.set("too much", failed(grammarLimit("place", "schemaNodes", "values")));
    cache.set("too slow", failed(new GrammarError("GRAMMAR_LIMIT", "slow")));
    cache.set("other", failed(new Error("other")));
    cache.set("unsent", failed(new GrammarError("GRAMMAR_INVALID", "no JSON", { details: { unsent: true } })));
    await settle();
    expect(["invalid", "too much", "too slow", "other", "unsent"].map((key) => cache.get(key) !== undefined)).toEqual([
      true,
      true,
      false,
      false,
      false,
    ]);
  });

  test("knows nothing of what has no key", () => {
    const cache = new GrammarCache();
    cache.set(undefined, grammar(1));
    expect(cache.get(undefined)).toBeUndefined();
  });
});
