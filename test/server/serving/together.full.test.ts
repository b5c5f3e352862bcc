// What together.test.ts shows of the reference backend with a small model, with the embedded one.

import { expect, it } from "vitest";
import { compare, EMBEDDED, openOn, REQUESTS } from "./batched-texts.js";

it(`reference, deterministic: each of ${REQUESTS} together has the text it has alone, prefixes shared or not`, async () => {
  await compare({ open: openOn("reference", EMBEDDED), requests: REQUESTS, maxTokens: 12 });
  expect.hasAssertions();
});
