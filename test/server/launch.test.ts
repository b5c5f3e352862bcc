// The end of a server of which a second model is still being opened.

import { expect, test } from "vitest";
import { loadModel } from "../../src/index.js";
import { launch } from "../../src/server/launch.js";
import { until } from "../../src/server/testing/test-server.js";
import { SMALL_MODEL } from "../cli/command-line.js";

const FOREVER_MS = 3_600_000;

test("stopping does not wait for a model that no request waits for", { timeout: 30_000 }, async () => {
  let opened = 0;
  const server = await launch({
    models: ["first", "second"].map((name) => ({ name, path: SMALL_MODEL })),
    openModel: ({ path }) => (++opened === 1 ? loadModel(path, { backend: "reference" }) : new Promise(() => {})),
    idleTimeoutMs: undefined,
    server: { port: 0, logLevel: "silent" },
  });
  const leaving = new AbortController();
  const asked = fetch(`${server.url}/v1/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model: "second", prompt: "Once" }),
    signal: leaving.signal,
  });
  await until(() => opened === 2);
  leaving.abort();
  await expect(asked).rejects.toMatchObject({ name: "AbortError" });
  // For less than the test's own time limit, that is.
  await server.stop(FOREVER_MS);
  expect(server.models().map(({ state }) => state)).not.toContain("loaded");
});
