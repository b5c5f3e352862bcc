// GET /engine and /residency: once as JSON, and as events that cost nothing while no client watches.

import { setTimeout as pause } from "node:timers/promises";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { ReferenceBackend } from "../../src/backends/reference/backend.js";
import type { Backend, TensorSource } from "../../src/backends/contract.js";
import { Model } from "../../src/model/model.js";
import { launch } from "../../src/server/launch.js";
import { startServer, until } from "../../src/server/testing/test-server.js";
import { SMALL_MODEL } from "../cli/command-line.js";
import { StagedResidency } from "../page/staged-residency.js";

interface Event {
  readonly name: string;
  // Tests read fields of events freely.
  // oxlint-disable-next-line typescript/no-explicit-any
  readonly data: any;
}

/** Events as they arrive, until it is disposed. */
class Watch implements AsyncDisposable {
  readonly events: Event[] = [];
  readonly #controller = new AbortController();
  #ended: Promise<void> = Promise.resolve();

  static async open(url: string): Promise<Watch> {
    const watch = new Watch();
    const { signal } = watch.#controller;
    const response = await fetch(url, { headers: { accept: "text/event-stream" }, signal });
    if (response.headers.get("content-type")?.startsWith("text/event-stream") !== true)
      throw new Error(`${url} answered with ${response.status} and no events`);
    watch.#ended = watch.#read(response).catch(() => {});
    return watch;
  }

  async until(isSo: (event: Event) => boolean): Promise<Event> {
    await until(() => this.events.some(isSo));
    return this.events.find(isSo) as Event;
  }

  /** Resolves when the server has ended the stream. */
  get ended(): Promise<void> {
    return this.#ended;
  }

  async #read(response: Response): Promise<void> {
    let text = "";
    for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>) {
      text += Buffer.from(chunk).toString();
      const blocks = text.split("\n\n");
      text = blocks.pop() ?? "";
      for (const block of blocks) {
        const found = /^event: (?<name>\w+)\ndata: (?<data>.*)$/s.exec(block)?.groups;
        if (found !== undefined) this.events.push({ name: found["name"], data: JSON.parse(found["data"]) });
      }
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#controller.abort();
    await this.#ended;
  }
}

describe("GET /engine", () => {
  it("answers with the state of each model", async () => {
    await using server = await startServer();
    const { status, json } = await server.get("/engine");
    expect(status).toBe(200);
    expect(json).toMatchObject({
      status: "ok",
      requests_in_flight: 0,
      models: [
        {
          id: "fake",
          state: "loaded",
          context_length: 4096,
          engine: {
            running: 0,
            queued: 0,
            step: { sequences: 0, prefill_tokens: 0, decode_tokens: 0 },
            generated_tokens_per_second: null,
            kv_blocks: { total: 8, free: 8, cached: 0 },
            state_slots: null,
            computed_tokens: 0,
          },
        },
      ],
    });
  });

  it("sends an event when something changes, and none at rest", async () => {
    await using server = await startServer();
    await using watch = await Watch.open(`${server.url}/engine`);
    await watch.until(({ data }) => data.models[0].engine.running === 0);
    server.model.running = 3;
    const { name } = await watch.until(({ data }) => data.models[0].engine.running === 3);
    expect(name).toBe("engine");
    await pause(600);
    const count = watch.events.length;
    await pause(1200);
    // Memory may move once; nothing else does.
    expect(watch.events.length - count).toBeLessThanOrEqual(1);
  });

  it("reads no statistics while no client watches", async () => {
    await using server = await startServer();
    let reads = 0;
    const statistics = server.pool.statistics.bind(server.pool);
    server.pool.statistics = () => (reads++, statistics());
    await using watch = await Watch.open(`${server.url}/engine`);
    await watch.until(() => true);
    await until(() => reads > 1);
    await watch[Symbol.asyncDispose]();
    // The server notices the end of a connection when it can.
    for (let before = -1; before < reads;) {
      before = reads;
      await pause(1100);
    }
  });

  it("needs a key if the server has keys", async () => {
    await using server = await startServer({ apiKeys: ["a-secret-key"] });
    expect((await server.get("/engine", { accept: "text/event-stream" })).status).toBe(401);
    expect((await server.get("/residency")).status).toBe(401);
    expect((await server.get("/engine", { authorization: "Bearer a-secret-key" })).status).toBe(200);
  });

  it("rejects more clients than a feed serves", async () => {
    await using server = await startServer();
    const watches = await Promise.all(Array.from({ length: 32 }, () => Watch.open(`${server.url}/engine`)));
    const { status, json } = await server.get("/engine", { accept: "text/event-stream" });
    expect([status, json.error.code]).toEqual([429, "rate_limit_exceeded"]);
    await Promise.all(watches.map((watch) => watch[Symbol.asyncDispose]()));
  });

  it("ends its streams when the server stops, without waiting for them", async () => {
    const server = await startServer();
    await using watch = await Watch.open(`${server.url}/engine`);
    await watch.until(() => true);
    const startMs = performance.now();
    await server.server.stop(100_000);
    await watch.ended;
    expect(performance.now() - startMs).toBeLessThan(50_000);
  });
});

describe("GET /residency", () => {
  it("lists the tensors of a model by layer", async () => {
    await using server = await startServer();
    const staged = new StagedResidency("llama3-1b", "a device");
    await staged.arrive(0.5);
    server.pool.residencies.set("fake", staged.residency);
    const { json } = await server.get("/residency?model=fake");
    expect(json).toMatchObject({ model: "fake", state: "loaded", device: "a device" });
    expect(json.tensors).toHaveLength(staged.tensors);
    expect(json.tensors[0]).toEqual({
      name: "token_embd.weight",
      segment: "embedding",
      layer: null,
      type: "Q6_K",
      shape: [2048, 128_256],
      bytes: 215_470_080,
      place: "device",
      state: "resident",
      resident_bytes: 215_470_080,
    });
    expect(json.tensors.at(-1)).toMatchObject({ segment: "output", state: "unloaded", resident_bytes: 0 });
  });

  it("rejects a model that is not served", async () => {
    await using server = await startServer();
    const { status, json } = await server.get("/residency?model=other");
    expect([status, json.error.code]).toEqual([404, "model_not_found"]);
  });

  it("sends the list, then what has changed, and the list again after a reload", async () => {
    await using server = await startServer();
    await using watch = await Watch.open(`${server.url}/residency`);
    await watch.until(({ name, data }) => name === "tensors" && data.tensors.length === 0);
    const staged = new StagedResidency("llama3-1b", "a device");
    await staged.arrive(0.1);
    server.pool.residencies.set("fake", staged.residency);
    const { data: list } = await watch.until(({ data }) => data.tensors?.length === staged.tensors);
    expect(list.tensors.filter(({ state }: { state: string }) => state === "arriving").length).toBeGreaterThan(0);
    await staged.arrive(0.2);
    const { data } = await watch.until(({ name }) => name === "states");
    expect(data.changed.length).toBeLessThan(staged.tensors / 4);
    expect(data.changed[0]).toMatchObject({ state: "resident" });
    server.pool.residencies.delete("fake");
    await until(() => watch.events.at(-1)?.data.tensors?.length === 0);
  });

  it("shows a real load, every tensor of it, for less than 1 % of its time", async () => {
    const spentMs = timeIntervals(250);
    let list = (): void => {};
    const listed = new Promise<void>((resolve) => (list = resolve));
    await using server = await launch({
      models: ["first", "second"].map((name) => ({ name, path: SMALL_MODEL })),
      openModel: ({ name, path }) =>
        Model.open(path, name === "first" ? slowBackend(0) : slowBackend(40, listed), {
          contextTokens: 64,
          serving: {},
        }),
      idleTimeoutMs: undefined,
      warmUp: false,
      server: { port: 0 },
    });
    await using watch = await Watch.open(`${server.url}/residency?model=second`);
    const startMs = performance.now();
    const loaded = fetch(`${server.url}/tokenize`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ model: "second", content: "" }),
    });
    const { data: first } = await watch.until(({ name, data }) => name === "tensors" && data.tensors.length > 0);
    list();
    await watch.until(({ data }) => data.state === "loaded");
    const loadMs = performance.now() - startMs;
    expect((await loaded).status).toBe(200);
    expect(first.state).toBe("loading");
    const states: string[] = first.tensors.map(({ state }: { state: string }) => state);
    for (const { name, data } of watch.events)
      if (name === "states") for (const { index, state } of data.changed) states[index] = state;
    expect(new Set(states)).toEqual(new Set(["resident"]));
    const seen = watch.events.flatMap(({ data }) => [...(data.tensors ?? []), ...(data.changed ?? [])]);
    expect(new Set(seen.map(({ state }) => state))).toEqual(new Set(["unloaded", "arriving", "resident"]));
    // A few events per second, however many tensors arrive.
    expect(watch.events.length).toBeLessThan(6 + (loadMs / 1000) * 5);
    expect(spentMs() / loadMs).toBeLessThan(0.01);
  });
});

/**
 * Measures the time spent in the callbacks of intervals of this length that are set from now on: the median for each of
 * them, because a busy machine may take any one of them off its core.
 */
function timeIntervals(intervalMs: number): () => number {
  const timesMs: number[] = [];
  const original = globalThis.setInterval;
  const spy = vi.spyOn(globalThis, "setInterval").mockImplementation(((callback: () => void, afterMs?: number) =>
    original(() => {
      const startMs = performance.now();
      callback();
      if (afterMs === intervalMs) timesMs.push(performance.now() - startMs);
    }, afterMs)) as typeof setInterval);
  onTestFinished(() => spy.mockRestore());
  return () => timesMs.length * (timesMs.toSorted((left, right) => left - right)[timesMs.length >> 1] ?? 0);
}

/** The reference backend with a slow disk, which gives nothing before `begin` resolves. */
function slowBackend(delayMs: number, begin: Promise<void> = Promise.resolve()): Backend {
  const backend = new ReferenceBackend();
  const upload = backend.upload.bind(backend);
  backend.upload = async (source: TensorSource) => {
    await begin;
    await pause(delayMs);
    return await upload(source);
  };
  return backend;
}
