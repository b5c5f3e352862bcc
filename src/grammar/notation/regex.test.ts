import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { EMPTY, repeat, set } from "../expression.js";
import { CharSet } from "../char-set.js";
import { inString } from "../schema/json-rules.js";
import { regexExpression } from "./regex.js";
import { STRING_FORMATS } from "../schema/string-formats.js";
import { expressionPattern } from "../testing/expression-pattern.js";

const whole = (pattern: string): RegExp =>
  expressionPattern(regexExpression(pattern, { place: "regex", characters: set, around: EMPTY }));
const found = (pattern: string): RegExp =>
  expressionPattern(
    regexExpression(pattern, { place: "regex", characters: set, around: repeat(set(CharSet.all), 0, Infinity) }),
  );
const complaint = (pattern: string): string => {
  try {
    whole(pattern);
    return "";
  } catch (error) {
    return (error as Error).message;
  }
};

const PATTERNS = [
  "abc",
  "a|b|",
  "a*b+c?",
  "[a-c]{2}",
  "[^a-c]",
  "(?:ab){1,3}",
  "(a|b)*c",
  "(?<name>a)b",
  "a{2,}",
  "\\d\\w\\s",
  "\\D\\W\\S",
  ".",
  "\\.",
  "[\\d-]",
  "[\\]a]",
  "[a\\-z]",
  "\\x61\\u0062\\u{63}",
  "a{,2}",
  "a{",
  "x{1}y",
  "[é-ü]",
  "\\u00e9",
  "a*?b+?",
  "[\\b]",
  "\\t\\n\\\\",
  "\\cA",
  "[^]",
  "[$^.*]",
];
const letter = fc.constantFrom(..."abcdxyz019 .-_[]{}$^\\éü\n\t,|*");

describe("regular expressions", () => {
  test.each(PATTERNS)("%s fits what it fits in JavaScript", (pattern) => {
    const [ours, theirs] = [whole(pattern), new RegExp(`^(?:${pattern})$`, pattern.includes("\\u{") ? "u" : "")];
    fc.assert(
      fc.property(
        fc.array(letter, { maxLength: 6 }),
        (letters) => ours.test(letters.join("")) === theirs.test(letters.join("")),
      ),
      { numRuns: 500 },
    );
  });

  test.each(["^a", "b$", "^ab$", "^a|b$", "a", "^", "$", "^(?:a|b)$"])(
    "%s is found where JavaScript finds it",
    (pattern) => {
      const [ours, theirs] = [found(pattern), new RegExp(pattern)];
      fc.assert(
        fc.property(
          fc.array(letter, { maxLength: 5 }),
          (letters) => ours.test(letters.join("")) === theirs.test(letters.join("")),
        ),
        { numRuns: 500 },
      );
    },
  );

  test.each([
    ["(a", 'regex, character 1: expected a regular expression that a grammar can follow, found "(" without ")"'],
    ["a)", 'character 2: expected a regular expression that a grammar can follow, found ")" without "("'],
    ["[a", '"[" without "]"'],
    ["*a", '"*" with nothing to repeat'],
    ["a**", "a repetition of a repetition"],
    ["a{3,1}", "a repetition from 3 to 1"],
    ["a(?=b)", "look around"],
    ["(?<!a)b", "look around"],
    ["(a)\\1", '"\\1"'],
    ["\\bword", '"\\b"'],
    ["\\p{L}", ""],
    ["\\p{Nonsense}", '"\\p"'],
    ["[z-a]", "a range of characters that is none"],
    ["(^a)", '"^" inside a group'],
    ["a$b", 'something behind "$"'],
    ["\\u{110000}", "beyond the last"],
    ["a\\", "a backslash at the end"],
    ["a{99999999}", ""],
    ["a{999999}", "expected repetitions up to"],
    ["(".repeat(100) + ")".repeat(100), "groups inside each other"],
    ["a".repeat(5000), "a regular expression of characters"],
  ])("rejects or reads %s", (pattern, message) => {
    if (message === "") expect(complaint(pattern)).toBe("");
    else expect(complaint(pattern)).toContain(message);
  });

  test("inside a string of JSON, each character is written in one way", () => {
    const pattern = expressionPattern(
      regexExpression("^.[^a]\\n$", { place: "pattern", characters: inString, around: EMPTY }),
    );
    for (const text of ['x"\n', "\\\u0001\n", "éb\n"])
      expect(pattern.test(JSON.stringify(text).slice(1, -1))).toBe(true);
    for (const text of ['x"\\n', "xa\\n", "x\\u0061\\n", "xb\n"]) expect(pattern.test(text)).toBe(false);
  });
});

describe("formats of strings", () => {
  const good: Readonly<Record<string, readonly string[]>> = {
    date: ["2024-02-28", "1999-12-31", "2024-02-29", "2000-02-29", "0004-02-29"],
    time: ["23:59:59Z", "01:02:03.5+01:30"],
    "date-time": ["2024-04-30T00:00:00Z"],
    duration: ["P3W", "P1Y2M3DT4H5M6S", "PT5M"],
    email: ["a.b@example.org", "o'brien+x@xn--bcher-kva.example"],
    hostname: ["a-b.example", "xn--bcher-kva.example", `${"a".repeat(63)}.b`],
    ipv4: ["0.0.0.0", "255.249.199.9"],
    ipv6: ["::", "::1", "1:2:3:4:5:6:7:8", "fe80::1", "1:2:3:4:5:6::"],
    uuid: ["123e4567-e89b-12d3-a456-426614174000"],
    uri: [
      "https://example.org:80/a/b?c=d#e",
      "mailto:a@example.org",
      "urn:isbn:12",
      "ftp://me:secret@host--x/%20",
      "http://[::1]:80/",
      "a:",
    ],
    "json-pointer": ["", "/a~1b/0"],
    "uri-reference": ["../a?b#c", "//host/x", "", "a:b"],
    "relative-json-pointer": ["0#", "1/a"],
  };
  const bad: Readonly<Record<string, readonly string[]>> = {
    date: ["2024-02-30", "2024-13-01", "2023-02-29", "1900-02-29", "2100-02-29"],
    time: ["24:00:00Z", "01:02:03"],
    "date-time": ["2024-04-31T00:00:00Z"],
    duration: ["P", "PT", "3W"],
    email: ["a@b", "a..b@example.org"],
    hostname: ["-a", "a-", "a..b", "a".repeat(64)],
    ipv4: ["256.0.0.0", "01.0.0.0"],
    ipv6: ["1:2:3:4:5:6:7:8:9", "1::2::3", ":1"],
    uuid: ["123e4567"],
    uri: ["example.org", "http://a b", "http://[1]", "1a:b"],
    "json-pointer": ["a", "/~2"],
    "uri-reference": ["a b", "%1", "1:b"],
    "relative-json-pointer": ["01", "#"],
  };
  test.each(Object.keys(STRING_FORMATS))("%s", (format) => {
    const pattern = whole((STRING_FORMATS[format] as { readonly pattern: string }).pattern.slice(1, -1));
    expect(good[format]?.filter((text) => !pattern.test(text))).toEqual([]);
    expect(bad[format]?.filter((text) => pattern.test(text))).toEqual([]);
  });
});
