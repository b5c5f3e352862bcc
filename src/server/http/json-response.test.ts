import fc from "fast-check";
import { expect, test } from "vitest";
import { jsonChunks, JsonParts } from "./json-response.js";

function written(value: unknown): string {
  const turns = jsonChunks(value);
  for (;;) {
    const { done, value: chunks } = turns.next();
    if (done === true) return Buffer.concat(chunks).toString();
  }
}

test("large answers are written as JSON.stringify writes them", () => {
  const tokens = Array.from({ length: 3000 }, (_, index) => ({
    token: `t${index}`,
    bytes: [index],
    top_logprobs: [{ token: "é", logprob: -0.5 }],
    none: undefined,
  }));
  const answer = {
    id: "x",
    skipped: undefined,
    choices: [
      { logprobs: { content: tokens }, text: "y".repeat(200_000) },
      { list: [], object: {} },
    ],
    numbers: Array.from({ length: 9000 }, Math.sqrt),
    [`"`]: null,
  };
  expect(written(answer)).toBe(JSON.stringify(answer));
});

test("any value is written as JSON.stringify writes it", () => {
  fc.assert(
    fc.property(fc.array(fc.jsonValue({ maxDepth: 3 }), { maxLength: 60 }), (values) => {
      const repeated = Array.from({ length: 40 }, () => ({ values, nested: { values } }));
      expect(written(repeated)).toBe(JSON.stringify(repeated));
    }),
    { numRuns: 50 },
  );
});

test("parts that are JSON already become fields", () => {
  const { chunks } = JsonParts.of({ model: "m" }, { tokens: Buffer.from("[1,2]"), "a b": Buffer.from('"x"') });
  expect(JSON.parse(Buffer.concat(chunks).toString())).toEqual({ model: "m", tokens: [1, 2], "a b": "x" });
});
