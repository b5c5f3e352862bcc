// A server that has nothing to do sleeps: no timer, no thread that polls, on any backend. A card whose queue is polled stays
// at a hundred watts.

import { existsSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { wakeUpsPerSecond } from "./idle-process.js";
import { Served } from "./served.js";

/** A poll ten times a second would be more. */
const FEW = 10;

describe.skipIf(!existsSync("/proc/self/task"))("an idle server (needs /proc)", () => {
  it("sleeps after a request", async () => {
    await using served = await Served.start(["--backend", "cpu"]);
    const response = await served.post("/v1/completions", { prompt: "Once", max_tokens: 8, temperature: 0 });
    expect(response.status).toBe(200);
    await response.arrayBuffer();
    expect(await wakeUpsPerSecond(served.pid, FEW)).toBeLessThan(FEW);
  });
});
