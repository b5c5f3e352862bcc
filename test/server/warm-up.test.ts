// A server from its start until it is ready: what /health says, and what requests get meanwhile.

import { type AddressInfo, createServer } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { expect, test } from "vitest";
import type { StepShape } from "../../src/backends/warm-up-step.js";
import type { Model } from "../../src/model/model.js";
import { loadModel } from "../../src/index.js";
import { launch, type LaunchOptions, type RunningServer } from "../../src/server/launch.js";
import { SMALL_MODEL } from "../cli/command-line.js";

const SHAPES = [1, 2].map((decoding) => ({ decoding, prompt: 0, longest: 1, runs: true, deferred: false }));

/** A model whose warm-up has two steps, which are prepared when `release` is called. */
class SlowWarmUp {
  readonly prepared: StepShape[] = [];
  release!: () => void;
  readonly #released = new Promise<void>((resolve) => (this.release = resolve));

  readonly open = async (path: string): Promise<Model> => {
    const model = await loadModel(path, { backend: "reference" });
    Object.assign(model.plan, {
      warmUpSteps: () => SHAPES,
      prepareWarmUp: async (shape: StepShape) => {
        this.prepared.push(shape);
        await this.#released;
      },
    });
    return model;
  };
}

function start({ open }: SlowWarmUp, options: Partial<LaunchOptions> = {}): Promise<RunningServer> {
  return launch({
    models: [{ name: "small", path: SMALL_MODEL }],
    openModel: ({ path }) => open(path),
    idleTimeoutMs: undefined,
    server: { port: 0, logLevel: "silent" },
    ...options,
  });
}

async function health({ url }: Pick<RunningServer, "url">): Promise<unknown> {
  const response = await fetch(`${url}/health`);
  return [response.status, await response.json(), response.headers.get("retry-after")];
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise<void>((resolve) => server.close(() => resolve()));
  return port;
}

async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await condition())) await pause(5);
}

const complete = (url: string): Promise<Response> =>
  fetch(`${url}/v1/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ prompt: "Once", max_tokens: 2 }),
  });

async function metric(url: string, name: string): Promise<string | undefined> {
  const text = await (await fetch(`${url}/metrics`)).text();
  return text.split("\n").find((line) => line.startsWith(name));
}

test("health is not ok before the warm-up is done, and requests are served all the same", async () => {
  const model = new SlowWarmUp();
  const progress: string[] = [];
  await using server = await start(model, { onWarmUp: ({ done, steps }) => progress.push(`${done}/${steps}`) });
  expect(await health(server)).toEqual([503, { status: "warming up" }, "1"]);
  expect(await metric(server.url, "rocmforge_ready")).toBe("rocmforge_ready 0");
  const answer = await complete(server.url);
  expect([answer.status, ((await answer.json()) as { usage: object }).usage]).toMatchObject([
    200,
    { completion_tokens: 2 },
  ]);
  expect(await health(server)).toEqual([503, { status: "warming up" }, "1"]);
  model.release();
  await server.ready;
  expect(await health(server)).toEqual([200, { status: "ok" }, null]);
  expect(await metric(server.url, "rocmforge_ready")).toBe("rocmforge_ready 1");
  expect(await metric(server.url, "rocmforge_warm_up_steps_done")).toBe(
    'rocmforge_warm_up_steps_done{model="small"} 2',
  );
  expect(progress.at(-1)).toBe("2/2");
});

test("health says that the model is being loaded, and a request waits for it", async () => {
  const model = new SlowWarmUp();
  model.release();
  let arrive = (): void => {};
  const held = new Promise<void>((resolve) => (arrive = resolve));
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const openModel = async ({ path }: { readonly path: string }): Promise<Model> => (await held, await model.open(path));
  const starting = start(model, { openModel, server: { port, logLevel: "silent" } });
  await until(async () => (await fetch(`${url}/health`).catch(() => undefined)) !== undefined);
  expect(await health({ url })).toEqual([503, { status: "loading model" }, "1"]);
  const early = complete(url);
  arrive();
  await using server = await starting;
  expect((await early).status).toBe(200);
  await server.ready;
  expect(await health(server)).toEqual([200, { status: "ok" }, null]);
});

test("without a warm-up it is ready once the model is loaded", async () => {
  const model = new SlowWarmUp();
  await using server = await start(model, { warmUp: false });
  await server.ready;
  expect(await health(server)).toEqual([200, { status: "ok" }, null]);
  expect(model.prepared).toEqual([]);
});

test("stopping waits for no warm-up", async () => {
  const model = new SlowWarmUp();
  const server = await start(model);
  await until(() => model.prepared.length === 2);
  await server.stop(0);
  await server.ready;
  await expect(fetch(`${server.url}/health`)).rejects.toThrow("fetch failed");
});

test("a model that is loaded later is warmed up behind its first request", async () => {
  const model = new SlowWarmUp();
  const first = new SlowWarmUp();
  first.release();
  const models = ["first", "second"].map((name) => ({ name, path: SMALL_MODEL }));
  let opened = 0;
  await using server = await start(first, {
    models,
    openModel: ({ path }) => (++opened === 1 ? first.open(path) : model.open(path)),
  });
  await server.ready;
  const body = JSON.stringify({ model: "second", prompt: "Once", max_tokens: 2 });
  const answer = await fetch(`${server.url}/v1/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body,
  });
  expect(answer.status).toBe(200);
  await until(() => model.prepared.length === 2);
  expect(await health(server)).toEqual([200, { status: "ok" }, null]);
  model.release();
  await until(
    async () => (await metric(server.url, 'rocmforge_warm_up_steps_done{model="second"}'))?.endsWith(" 2") === true,
  );
});
