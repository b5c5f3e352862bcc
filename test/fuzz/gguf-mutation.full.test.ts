// The long run of the fuzzer; seeds follow those of the short one.

import { expect, test } from "vitest";
import { fuzz } from "./gguf-mutation.js";

const CASES = 20_000;

test(`${CASES} mutated files are opened or refused, never more`, async () => {
  const report = await fuzz({ seed: 1_000_000, cases: CASES });
  console.log(
    `fuzz: ${report.opened} opened, slowest ${report.slowestMs.toFixed(1)} ms, most ${report.largestBytes} bytes`,
    report.refused,
  );
  expect(report.opened).toBeGreaterThan(CASES / 20);
  expect(report.refused.size).toBeGreaterThanOrEqual(10);
});
