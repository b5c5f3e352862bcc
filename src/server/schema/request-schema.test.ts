import { expect, test, vi } from "vitest";
import { z } from "zod";
import { anyObject } from "./fields.js";
import { listOf } from "./list-schema.js";
import { RequestError } from "../http/request-error.js";
import { readRequest, type RequestSchema } from "./request-schema.js";

const schema: RequestSchema<{
  count?: number | undefined;
  list?: { name: string }[] | undefined;
  any?: Record<string, unknown> | undefined;
}> = {
  fields: z.object({
    count: z.int().min(1).max(9).optional(),
    list: listOf(z.object({ name: z.string() }), 2).optional(),
    any: anyObject.optional(),
  }),
  withoutEffect: ["user"],
  refused: { magic: { instead: "use count", unless: [0, { a: [1] }] } },
};

function read(body: unknown, strict = false) {
  const reportUnknown = vi.fn<(fields: readonly string[]) => void>();
  return { result: readRequest(schema, body, { strict, reportUnknown, reportSkipped: () => {} }), reportUnknown };
}

function refusalOf(body: unknown, strict = false): RequestError {
  try {
    read(body, strict);
  } catch (error) {
    if (error instanceof RequestError) return error;
    throw error;
  }
  throw new Error("nothing was refused");
}

test("null is absent, listed fields leave no trace", () => {
  const { result, reportUnknown } = read({ count: null, user: { whatever: 1 }, magic: null });
  expect(result).toEqual({});
  expect(reportUnknown).not.toHaveBeenCalled();
});

test("refuses by name what is not supported, unless it asks for nothing", () => {
  expect(refusalOf({ magic: 1 })).toMatchObject({
    param: "magic",
    code: "unsupported_parameter",
    message: "[magic] is not supported: use count",
  });
  expect(read({ magic: 0 }).result).toEqual({});
  expect(read({ magic: { a: [1] } }).result).toEqual({});
});

test("names the place and what would do", () => {
  expect(refusalOf({ count: "x" }).message).toBe('[count] expected a number, found "x"');
  expect(refusalOf({ count: 1.5 }).message).toBe("[count] expected a whole number, found 1.5");
  expect(refusalOf({ count: 10 }).message).toBe("[count] expected at most 9, found more");
  expect(refusalOf({ list: [{ name: 5 }] }).message).toBe("[list[0].name] expected a string, found 5");
  expect(refusalOf({ list: [{}] }).message).toBe("[list[0].name] expected a string, found nothing");
  expect(refusalOf([]).message).toBe("[body] expected a JSON object, found a list");
  expect(refusalOf("x".repeat(1000)).message).toBe("[body] expected a JSON object, found a long text");
});

test("of a list of wrong things, the first is named and the rest not looked at", () => {
  let looks = 0;
  const element = z.custom<number>(() => {
    looks++;
    return false;
  }, "expected a wonder");
  const wonders: RequestSchema = {
    fields: z.object({ list: listOf(element, 100_000) }),
    withoutEffect: [],
    refused: {},
  };
  const list = Array.from({ length: 100_000 }, () => 0);
  expect(() =>
    readRequest(wonders, { list }, { strict: false, reportUnknown: () => {}, reportSkipped: () => {} }),
  ).toThrow("[list[0]] expected a wonder");
  expect(looks).toBe(1);
});

test("a list that is too long is refused before its elements are looked at", () => {
  expect(refusalOf({ list: [1, 2, 3] }).message).toBe("[list] expected at most 2 elements, found more");
});

test("reports unknown fields with their place, a few of many, and none inside what is passed on", () => {
  const { reportUnknown } = read({ list: [{ name: "a", age: 1 }], other: 1, any: { deep: { er: 1 } } });
  expect(reportUnknown.mock.calls).toEqual([[["list[0].age", "other"]]]);
  const many = read(Object.fromEntries(Array.from({ length: 100 }, (_, index) => [`field${index}`, 1])));
  expect(many.reportUnknown.mock.calls[0]?.[0]).toHaveLength(16);
  expect(refusalOf({ other: 1 }, true)).toMatchObject({ param: "other", code: "unknown_parameter" });
});

test("names that every object has are fields like any other", () => {
  const body = JSON.parse('{"__proto__": {"count": 5}, "constructor": 1, "toString": 2}') as unknown;
  const { result, reportUnknown } = read(body);
  expect(result.count).toBeUndefined();
  expect(reportUnknown.mock.calls[0]?.[0]).toEqual(expect.arrayContaining(["constructor", "toString"]));
});
