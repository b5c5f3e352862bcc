// The long run of family-mutation.test.ts.

import { expect, test } from "vitest";
import { fuzzFamilies } from "./family-mutation.js";

test("4,000 models of all families with broken keys run or are refused, never more", async () => {
  const { ran } = await fuzzFamilies(100_000, 4_000);
  expect(ran).toBeGreaterThan(400);
});
