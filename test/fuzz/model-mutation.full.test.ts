// The long run of model-mutation.test.ts.

import { expect, test } from "vitest";
import { fuzzContents, fuzzHeaders } from "./model-mutation.js";

test("10,000 models with broken headers run or are refused, never more", async () => {
  const report = await fuzzHeaders(100_000, 10_000);
  expect(report.ran).toBeGreaterThan(500);
});

test("500 models with broken contents run or are refused, never more", async () => {
  const report = await fuzzContents(1000, 500);
  expect(report.ran).toBeGreaterThan(10);
});
