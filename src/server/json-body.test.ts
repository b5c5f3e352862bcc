import fc from "fast-check";
import { expect, test } from "vitest";
import { parseJsonBody } from "./json-body.js";
import { RequestError } from "./request-error.js";

const BOUNDS = { depth: 64, values: 1000 };
const parse = (text: string | Uint8Array, bounds = BOUNDS): unknown => parseJsonBody(Buffer.from(text), bounds);

test("what JSON.parse reads within the bounds is read alike", () => {
  fc.assert(
    fc.property(fc.json({ depthSize: "small" }), (text) => {
      expect(parse(text, { depth: 1000, values: 1e6 })).toEqual(JSON.parse(text));
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
  expect(parse(String.raw`"\"[[[\\"`, { depth: 1, values: 10 })).toBe(String.raw`"[[[` + "\\");
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
