import { describe, expect, test } from "vitest";
import { ByteMatcher } from "../testing/byte-matcher.js";

describe("looks ahead at the beginning", () => {
  const texts = [
    "",
    "a",
    "ab",
    "test",
    "test-a",
    "tes",
    "a1",
    "1a",
    "A1b",
    "abc1D",
    "..",
    "a.b",
    "a..b",
    "xyz",
    "no",
    "none",
    "é",
    "x y",
  ];

  test.each([
    "^(?!test)[a-z-]*$",
    "^(?!.*\\.\\.)[a-z.]*$",
    "^(?=.*[0-9])(?=.*[A-Z])[A-Za-z0-9]{2,5}$",
    "^(?!(?:no|xyz)$)[a-z]+$",
    "^(?![\\])|(]a)a?.$",
    "^(?=a).*$",
    "^\\p{Ll}+$",
  ])("%s fits what it fits in JavaScript", async (pattern) => {
    const matcher = new ByteMatcher();
    const theirs = new RegExp(pattern, "u");
    const inString = await matcher.compile({ kind: "schema", schema: { type: "string", pattern } });
    for (const text of texts)
      expect({ text, fits: await inString(JSON.stringify(text)) }).toEqual({ text, fits: theirs.test(text) });
    const whole = new RegExp(`^(?:${pattern})$`, "u");
    const alone = await matcher.compile({ kind: "regex", pattern });
    for (const text of texts) expect({ text, fits: await alone(text) }).toEqual({ text, fits: whole.test(text) });
  });

  test.each(["a(?=b)", "(?!a)b", "^(?!a)b|c", "^a(?<=b)"])("rejects %s", async (pattern) => {
    await expect(new ByteMatcher().compile({ kind: "regex", pattern })).rejects.toThrow("a look around");
  });
});
