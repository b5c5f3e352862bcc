// The short run: keys and tensors of every family, broken.

import { expect, test } from "vitest";
import { fuzzFamilies } from "./family-mutation.js";

/** A hostile count must not size an allocation. */
const MAX_GROWTH_KILOBYTES = 512 * 1024;

test("100 models of all families with broken keys run or are refused, never more", async () => {
  const before = process.resourceUsage().maxRSS;
  const { ran, refused } = await fuzzFamilies(1, 100);
  expect(ran).toBeGreaterThan(10);
  expect([...refused.keys()]).toEqual(expect.arrayContaining(["GGUF_HYPERPARAMETER", "GGUF_VALUE", "MODEL_INVALID"]));
  expect(process.resourceUsage().maxRSS - before).toBeLessThan(MAX_GROWTH_KILOBYTES);
});
