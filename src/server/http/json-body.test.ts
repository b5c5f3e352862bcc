import fc from "fast-check";
import { expect, test } from "vitest";
import { jsonTurns, parseJsonBody } from "./json-body.js";
import { RequestError } from "./request-error.js";

const BOUNDS = { depth: 64, values: 1000, members: 100 };
const parse = (text: string | Uint8Array, bounds = BOUNDS): unknown => parseJsonBody(Buffer.from(text), bounds);

const WIDE = { depth: 1000, values: 1e6, members: 1e6 };
/** As large bodies are read, with chunks so small that everything is large. */
const readInTurns = (bytes: Uint8Array, chunkBytes: number, bounds = WIDE): unknown => {
  const turns = jsonTurns(Buffer.from(bytes), bounds, chunkBytes);
  for (;;) {
    const { done, value } = turns.next();
    if (done === true) return value;
  }
};

test("what JSON.parse reads within the bounds is read alike", () => {
  fc.assert(
    fc.property(fc.json({ depthSize: "small" }), (text) => {
      expect(parse(text, WIDE)).toEqual(JSON.parse(text));
    }),
  );
});

test("whatever the bytes, there is a value or a refusal", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 64 }), (bytes) => {
      try {
        parse(bytes);
      } catch (error) {
        expect(error).toBeInstanceOf(RequestError);
        expect((error as RequestError).status).toBe(400);
      }
    }),
  );
});

test("depth is counted exactly, and brackets in strings do not count", () => {
  const nested = (depth: number): string => "[".repeat(depth) + "]".repeat(depth);
  expect(() => parse(nested(64))).not.toThrow();
  expect(() => parse(nested(65))).toThrow(/64 levels/);
  expect(parse(JSON.stringify(nested(100)))).toBe(nested(100));
  expect(parse(String.raw`"\"[[[\\"`, { ...BOUNDS, depth: 1, values: 10 })).toBe(String.raw`"[[[` + "\\");
});

test("rejects a depth that would end a recursive reader", () => {
  expect(() => parse("[".repeat(1_000_000))).toThrow(/levels/);
  expect(() => parse('{"a":'.repeat(1_000_000))).toThrow(/levels/);
});

test("rejects too many values", () => {
  expect(() => parse(JSON.stringify(Array.from({ length: 900 }, () => 0)))).not.toThrow();
  expect(() => parse(JSON.stringify(Array.from({ length: 1000 }, () => 0)))).toThrow(/1000 values/);
});

test("rejects what is not UTF-8, not JSON, or nothing", () => {
  expect(() => parse(Uint8Array.of(0x22, 0xc3, 0x28, 0x22))).toThrow(/UTF-8/);
  expect(() => parse(Uint8Array.of(0x22, 0xed, 0xa0, 0x80, 0x22))).toThrow(/UTF-8/);
  expect(() => parse("{'a': 1}")).toThrow(/not JSON/);
  expect(() => parse('{"a": 1')).toThrow(/not JSON/);
  expect(() => parse("")).toThrow(/nothing/);
});

test("rejects an object of too many fields", () => {
  const object = (fields: number): string =>
    JSON.stringify(Object.fromEntries(Array.from({ length: fields }, (_, index) => [`f${index}`, 0])));
  expect(() => parse(object(100))).not.toThrow();
  expect(() => parse(object(101))).toThrow(/100 fields/);
});

const spaced = fc.record({
  value: fc.jsonValue({ depthSize: "medium", maxDepth: 6 }),
  indent: fc.constantFrom(undefined, 1, "\t"),
  chunkBytes: fc.integer({ min: 48, max: 200 }),
});

test("in turns, JSON is read as JSON.parse reads it", () => {
  fc.assert(
    fc.property(spaced, ({ value, indent, chunkBytes }) => {
      const text = JSON.stringify(value, undefined, indent);
      // Names are read whole, and so are numbers.
      fc.pre(!/"[^"]{40,}"\s*:/.test(text));
      expect(readInTurns(Buffer.from(text), chunkBytes)).toEqual(JSON.parse(text));
    }),
    { numRuns: 300 },
  );
});

test("in turns, what JSON.parse refuses is refused", () => {
  const json = fc.jsonValue({ depthSize: "medium", maxDepth: 4 }).map((value) => JSON.stringify(value));
  fc.assert(
    fc.property(
      json,
      fc.nat(),
      fc.constantFrom(",", "[", "]", "{", "}", '"', ":", " ", "x", "\\", "0", ""),
      fc.integer({ min: 24, max: 64 }),
      (text, place, inserted, chunkBytes) => {
        const at = place % (text.length + 1);
        const changed = text.slice(0, at) + inserted + text.slice(at + (inserted === "" ? 1 : 0));
        let expected: unknown;
        try {
          expected = JSON.parse(changed);
        } catch {
          expect(() => readInTurns(Buffer.from(changed), chunkBytes)).toThrow(RequestError);
          return;
        }
        try {
          expect(readInTurns(Buffer.from(changed), chunkBytes)).toEqual(expected);
        } catch (error) {
          // A name or a number of more than a chunk.
          if (!(error instanceof RequestError)) throw error;
          expect(changed).toMatch(/"(?:[^"\\]|\\.){20,}"\s*:|[\d.eE+-]{20,}|\s{20,}/);
        }
      },
    ),
    { numRuns: 2000 },
  );
});

test("in turns, a long text without its closing quote is refused", () => {
  for (const text of [`"${"a".repeat(60)}`, `"${"a".repeat(60)}\\`, `"${"a".repeat(60)}\\"`, `["${"a".repeat(60)}`])
    expect(() => readInTurns(Buffer.from(text), 24)).toThrow(/not JSON/);
});

test("in turns, texts are cut between characters and escapes", () => {
  const escapes = String.raw`é😀\u00e9\ud83d\ude00\\\"\n`;
  const text = `{"a":"${escapes.repeat(50)}","__proto__":{"b":${JSON.stringify(Array.from({ length: 40 }, (_, index) => index))}}, "c" : [ ] }`;
  for (let chunkBytes = 20; chunkBytes < 60; chunkBytes++) {
    const value = readInTurns(Buffer.from(text), chunkBytes) as Record<string, unknown>;
    expect(value).toEqual(JSON.parse(text));
    expect(Object.keys(value)).toEqual(["a", "__proto__", "c"]);
  }
});

test("in turns, bytes that are not UTF-8 are refused, and a byte order mark is passed over", () => {
  const filler = `"${"x".repeat(100)}"`;
  const broken = Buffer.concat([Buffer.from(`[${filler},"`), Uint8Array.of(0xc3, 0x28), Buffer.from(`"]`)]);
  expect(() => readInTurns(broken, 32)).toThrow(/UTF-8/);
  const marked = Buffer.from(`\ufeff[${filler}, "\ufeffx"]`);
  expect(readInTurns(marked, 32)).toEqual(["x".repeat(100), "\ufeffx"]);
});

test("in turns, no stretch is long", () => {
  for (const text of [
    `[${" ".repeat(100)}]`,
    `[${"1".repeat(100)}]`,
    `${" ".repeat(100)}1`,
    `{"a":1${"\n".repeat(100)}}`,
  ]) {
    expect(() => readInTurns(Buffer.from(text), 64)).toThrow(/64 bytes of white space/);
  }
});
