import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { text } from "./expression.js";
import { grammarSource } from "./grammar-spec.js";
import { GRAMMAR_LIMITS } from "./limits.js";
import { GrammarRules } from "./rules.js";
import { ByteMatcher } from "./testing/byte-matcher.js";

describe("rules as they are printed", () => {
  const rules = (pattern: string): string => grammarSource({ kind: "regex", pattern }).text;

  test("repetitions inside each other grow with the pattern, not with its square or more", () => {
    const nested = (levels: number): number => rules(`${"(?:".repeat(levels)}ab|c${")+".repeat(levels)}`).length;
    expect(nested(40)).toBeLessThan(2.5 * nested(20));
    const counted = (levels: number): number => rules(`${"(?:".repeat(levels)}ab|c${"){2,}".repeat(levels)}`).length;
    expect(counted(40)).toBeLessThan(2.5 * counted(20));
  });

  test.each(["(?:ab|c)+", "(?:(?:a|bc)+d){2,}", "(?:(?:ab)+|c)+d", "(?:a|b){3,}", "(?:[ab]+c?)+", ".{2,}", "(?:(?:(?:a)+b)+c)+"])("%s fit what it fits in JavaScript", async (pattern) => {
    const accepts = await new ByteMatcher().compile({ kind: "regex", pattern });
    const theirs = new RegExp(`^(?:${pattern})$`, "u");
    const texts = fc.sample(fc.array(fc.constantFrom(..."abcd"), { maxLength: 8 }), { numRuns: 200, seed: 3 }).map((letters) => letters.join(""));
    for (const written of [...texts, "ab", "abc", "bcbcdad", "aab", "ababcd", "ababcabc"]) {
      expect({ written, fits: await accepts(written) }).toEqual({ written, fits: theirs.test(written) });
    }
  });

  test("characters are counted with all that stands between them", () => {
    const print = (count: number): string => new GrammarRules().print({ kind: "choice", options: Array.from({ length: count }, () => text("a")) }, "place");
    const each = '"a" | '.length;
    const most = Math.floor(GRAMMAR_LIMITS.compiledCharacters / each);
    expect(print(most - 10).length).toBeLessThanOrEqual(GRAMMAR_LIMITS.compiledCharacters);
    expect(() => print(most + 10)).toThrow("characters of rules");
  });
});
