// The same as idle.test.ts for the backend of GPUs, on the emulated HIP device, whose kernels take long to compile.

import { existsSync } from "node:fs";
import { expect, it } from "vitest";
import { describeEmulator, emulatorEnvironment } from "../gpu/emulator/build.js";
import { wakeUpsPerSecond } from "./idle-process.js";
import { Served } from "./served.js";

const FEW = 10;

describeEmulator("an idle server on a GPU", () => {
  it.skipIf(!existsSync("/proc/self/task"))("sleeps after a request (needs /proc)", { timeout: 600_000 }, async () => {
    await using served = await Served.start(["--backend", "hip"], emulatorEnvironment({}));
    const response = await served.post("/v1/completions", { prompt: "Once", max_tokens: 4, temperature: 0 });
    expect(response.status).toBe(200);
    await response.arrayBuffer();
    expect(await wakeUpsPerSecond(served.pid, FEW)).toBeLessThan(FEW);
  });
});
