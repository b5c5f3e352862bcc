// A model file that is damaged while it is served: the client gets an error, /health reports it, and once the file is whole
// again the next request is answered.

import { copyFileSync, readFileSync, truncateSync, writeFileSync } from "node:fs";
import { expect, test } from "vitest";
import { loadAddon } from "../../src/backends/cpu/addon.js";
import { TemporaryFolder } from "../support/temporary-folder.js";
import { SMALL_MODEL } from "./command-line.js";
import { Served } from "./served.js";

const addon = loadAddon();
const why = "reason" in addon ? ` (skipped: ${addon.reason})` : "";

test.skipIf("reason" in addon)(`a damaged file is loaded again when it is whole${why}`, async () => {
  using folder = new TemporaryFolder();
  const path = folder.file("model.gguf");
  copyFileSync(SMALL_MODEL, path);
  await using served = await Served.start(["-m", path, "--backend", "cpu"]);
  const complete = async (prompt: string) => {
    const response = await served.post("/v1/completions", { prompt, max_tokens: 4 });
    return { status: response.status, body: await response.text() };
  };
  const health = async () => (await fetch(`${served.url}/health`)).status;
  expect(await complete("One")).toMatchObject({ status: 200 });

  const whole = readFileSync(path);
  truncateSync(path, whole.length >> 4);
  for (const prompt of ["Two", "Three"]) {
    const { status, body } = await complete(prompt);
    expect([status, body]).toEqual([503, expect.stringMatching(/"model_unavailable"/)]);
    expect(body).toContain("GGUF_");
    expect(body).not.toContain(path);
  }
  expect(await health()).toBe(503);

  writeFileSync(path, whole);
  expect(await complete("Four")).toMatchObject({ status: 200 });
  expect(await health()).toBe(200);
});
