import { describe, expect, it } from "vitest";
import { longPrompt } from "./long-prompt.js";

/** One token a letter, and one in front. */
const letters = { encode: (text: string) => new Int32Array(1 + text.replaceAll(" ", "").length) };
/** Words of any length are one token. */
const words = { encode: (text: string) => new Int32Array(text.split(" ").length) };

describe("a long prompt", () => {
  it.each([1, 2, 7, 512])("has at least %d tokens, and would have fewer without its last word", (count) => {
    for (const tokenizer of [letters, words]) {
      const { text, tokens } = longPrompt(tokenizer, count);
      expect(tokens).toBe(tokenizer.encode(text).length);
      expect(tokens).toBeGreaterThanOrEqual(count);
      const shorter = text.split(" ").slice(0, -1).join(" ");
      if (shorter !== "") expect(tokenizer.encode(shorter).length).toBeLessThan(count);
    }
  });

  it("has a word where none is asked for", () => {
    expect(longPrompt(words, 0)).toEqual({ text: "Once", tokens: 1 });
  });
});
