// The soak in short; `npm run soak -- --minutes 10` is the long form.

import { expect, it } from "vitest";
import { SMALL_MODEL } from "../../cli/command-line.js";
import { Served } from "../../cli/served.js";
import { describeCpu } from "../../conformance/subjects.js";
import { runSoak } from "./soak.js";
import { FULL_RUN } from "../../support/full-run.js";

const EMBEDDED = new URL("../../../models/fable-10m-Q4_K_M.gguf", import.meta.url).pathname;
/** Each of the clients has several turns in a few seconds, and the soak takes both cores of a small machine. */
const DURATION_MS = FULL_RUN ? 30_000 : 5_000;
/** A process that began seconds ago still grows; the long form is where memory has to be flat. */
const MOST_GROWTH_BYTES = 128 * 2 ** 20;

describeCpu("a few seconds of mixed clients, a third of them slow or leaving", () => {
  it("bring no error that was not asked for, and leave nothing behind", async () => {
    await using served = await Served.start([
      "-m",
      `embedded=${EMBEDDED}`,
      "-m",
      `small=${SMALL_MODEL}`,
      "--backend",
      "cpu",
      "--max-concurrent",
      "16",
      "--log-level",
      "error",
    ]);
    const report = await runSoak({
      url: served.url,
      models: ["embedded", "small"],
      warmUpMs: 0,
      durationMs: DURATION_MS,
      clients: 24,
      seed: 5,
    });
    expect(report.problems).toEqual([]);
    expect(report).toMatchObject({ running: 0, queued: 0, inFlight: 0, leakedBlocks: 0 });
    expect(report.memoryGrowthBytes).toBeLessThan(MOST_GROWTH_BYTES);
    // However slow the machine, each client had a turn: most kinds of request and all manners of reading.
    expect(report.byKind.size).toBeGreaterThan(7);
    expect(report.byManner.size).toBe(3);
    expect(served.stderr).not.toContain(`"level":50`);
    served.kill("SIGTERM");
    expect(await served.status).toBe(0);
  });
});
