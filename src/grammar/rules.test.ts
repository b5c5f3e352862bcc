import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { grammarNetwork } from "./compile-grammar.js";
import { ByteMatcher } from "./testing/byte-matcher.js";

describe("expressions as they are compiled", () => {
  const states = (pattern: string): number => grammarNetwork({ kind: "regex", pattern }).states.length;

  test("repetitions inside each other grow with the pattern, not with its square or more", () => {
    const nested = (levels: number): number => states(`${"(?:".repeat(levels)}ab|c${")+".repeat(levels)}`);
    expect(nested(40)).toBeLessThan(2.5 * nested(20));
    const counted = (levels: number): number => states(`${"(?:".repeat(levels)}ab|c${"){2,}".repeat(levels)}`);
    expect(counted(40)).toBeLessThan(2.5 * counted(20));
  });

  test.each([
    "(?:ab|c)+",
    "(?:(?:a|bc)+d){2,}",
    "(?:(?:ab)+|c)+d",
    "(?:a|b){3,}",
    "(?:[ab]+c?)+",
    ".{2,}",
    "(?:(?:(?:a)+b)+c)+",
  ])("%s fit what it fits in JavaScript", async (pattern) => {
    const accepts = await new ByteMatcher().compile({ kind: "regex", pattern });
    const theirs = new RegExp(`^(?:${pattern})$`, "u");
    const texts = fc
      .sample(fc.array(fc.constantFrom(..."abcd"), { maxLength: 8 }), { numRuns: 200, seed: 3 })
      .map((letters) => letters.join(""));
    for (const written of [...texts, "ab", "abc", "bcbcdad", "aab", "ababcd", "ababcabc"]) {
      expect({ written, fits: await accepts(written) }).toEqual({ written, fits: theirs.test(written) });
    }
  });
});
