// The short run: broken headers and broken contents through the whole engine.

import { expect, test } from "vitest";
import { fuzzContents, fuzzHeaders } from "./model-mutation.js";

test("300 models with broken headers run or are refused, never more", async () => {
  const report = await fuzzHeaders(50_000, 300);
  expect(report.ran).toBeGreaterThan(15);
  expect([...report.refused.keys()]).toEqual(
    expect.arrayContaining(["GGUF_HYPERPARAMETER", "GGUF_TOKENIZER", "MODEL_INVALID"]),
  );
});

test("40 models with broken contents run or are refused, never more", async () => {
  const report = await fuzzContents(1, 40);
  expect(report.ran + [...report.refused.values()].reduce((sum, count) => sum + count, 0)).toBe(40);
  expect(report.refused.has("GGUF_TENSOR_NOT_FINITE")).toBe(true);
});
