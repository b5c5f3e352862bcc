// The start and the end of a server whose model takes as long as the test likes.

import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import type { Model } from "../model/model.js";
import { launch, type LaunchOptions, type ServerAddresses } from "./launch.js";
import { until } from "./testing/test-server.js";

const PATH = fileURLToPath(import.meta.url);

/** Opened when `arrive` is called; counts what is given back. */
class SlowModel {
  asked = 0;
  givenBack = 0;
  arrive!: () => void;

  readonly open = (): Promise<Model> => {
    this.asked++;
    const model = { [Symbol.asyncDispose]: async () => void this.givenBack++ };
    return new Promise((resolve) => (this.arrive = () => resolve(model as unknown as Model)));
  };
}

function start({ open }: SlowModel, options: Partial<LaunchOptions> = {}): ReturnType<typeof launch> {
  return launch({
    models: [{ name: "slow", path: PATH }],
    openModel: open,
    idleTimeoutMs: undefined,
    server: { port: 0, logLevel: "silent" },
    ...options,
  });
}

test("a start that is aborted while its model is opened ends, and gives the model back when it comes", async () => {
  const model = new SlowModel();
  const controller = new AbortController();
  const started = start(model, { signal: controller.signal });
  await until(() => model.asked === 1);
  const reason = new Error("enough");
  controller.abort(reason);
  await expect(started).rejects.toBe(reason);
  expect(model.givenBack).toBe(0);
  model.arrive();
  await until(() => model.givenBack === 1);
});

test("a start that is aborted waits a little for what is nearly there", async () => {
  const model = new SlowModel();
  const controller = new AbortController();
  const started = start(model, { signal: controller.signal });
  await until(() => model.asked === 1);
  controller.abort();
  setTimeout(model.arrive, 50);
  await expect(started).rejects.toMatchObject({ name: "AbortError" });
  expect(model.givenBack).toBe(1);
});

test("a start that was aborted before it began opens nothing", async () => {
  const model = new SlowModel();
  await expect(start(model, { signal: AbortSignal.abort() })).rejects.toMatchObject({ name: "AbortError" });
  expect(model.asked).toBe(0);
});

test("a model that cannot be opened fails the start with its own error", async () => {
  const failure = new Error("no such thing");
  const openModel = async (): Promise<Model> => Promise.reject(failure);
  await expect(start(new SlowModel(), { openModel, signal: new AbortController().signal })).rejects.toBe(failure);
});

test("a server says where it listens while its first model is still being opened", async () => {
  const model = new SlowModel();
  const controller = new AbortController();
  const addresses: ServerAddresses[] = [];
  const started = start(model, {
    onListening: (found) => void addresses.push(found),
    server: { port: 0, ollamaPort: 0, logLevel: "silent" },
    signal: controller.signal,
  });
  await until(() => addresses.length > 0 && model.asked === 1);
  const [{ url, ollamaUrl }] = addresses;
  expect(ollamaUrl).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
  const health = await fetch(`${url}/health`);
  expect([health.status, await health.json()]).toEqual([503, { status: "loading model" }]);
  expect((await fetch(`${url}/v1/models`)).status).toBe(200);
  controller.abort();
  setTimeout(model.arrive, 10);
  await expect(started).rejects.toMatchObject({ name: "AbortError" });
});

test("a caller that fails when it learns the address fails the start, and nothing listens any more", async () => {
  let url = "";
  const failure = new Error("no browser");
  const onListening = (found: ServerAddresses): void => {
    url = found.url;
    throw failure;
  };
  await expect(start(new SlowModel(), { onListening })).rejects.toBe(failure);
  await expect(fetch(`${url}/health`)).rejects.toThrow("fetch failed");
});
