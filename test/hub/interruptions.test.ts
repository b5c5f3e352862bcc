// The short form of interruptions.full.test.ts, and two processes that want the same file.

import { readdirSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { HubEnvironment, paddedModel } from "./hub-environment.js";
import { pullInProcess, pullThroughInterruptions } from "./interruptions.js";
import { sha256, TestHub } from "./test-hub.js";

it("ends in the right file after ten interruptions, and fetches no byte twice beyond a range each", async () => {
  const interruptions = { sizeBytes: 6_000_000, count: 10, chunkBytes: 256 * 1024, seed: 1 };
  const { kills, cuts } = await pullThroughInterruptions(interruptions);
  // A process may have ended before it could be killed.
  expect(kills + cuts).toBeGreaterThan(6);
});

it("is fetched once by two processes at once", async () => {
  const bytes = paddedModel(3_000_000);
  await using hub = await TestHub.start([{ path: "fable-Q4_K_M.gguf", bytes }]);
  using environment = new HubEnvironment(hub);
  hub.sliceMs = 10;
  const codes = await Promise.all([1, 2].map(() => pullInProcess(environment, hub, 512 * 1024)));
  expect(codes).toEqual([0, 0]);
  expect(readdirSync(join(environment.repositoryFolder(hub), "blobs"))).toEqual([sha256(bytes)]);
  expect(hub.sentBytes).toBe(bytes.length);
});

it("takes over from a process that was killed while another one waited", async () => {
  const bytes = paddedModel(3_000_000);
  await using hub = await TestHub.start([{ path: "fable-Q4_K_M.gguf", bytes }]);
  using environment = new HubEnvironment(hub);
  hub.sliceMs = 15;
  let killFirst: () => void = () => {};
  const first = pullInProcess(environment, hub, 512 * 1024, (kill) => (killFirst = () => kill("SIGKILL")));
  while (hub.sentBytes < 1_000_000) await new Promise((resolve) => setTimeout(resolve, 5));
  const second = pullInProcess(environment, hub, 512 * 1024);
  while (hub.sentBytes < 2_000_000) await new Promise((resolve) => setTimeout(resolve, 5));
  killFirst();
  expect(await Promise.all([first, second])).toEqual([null, 0]);
  expect(readdirSync(join(environment.repositoryFolder(hub), "blobs"))).toEqual([sha256(bytes)]);
  expect(hub.sentBytes).toBeLessThanOrEqual(bytes.length + 512 * 1024);
});
