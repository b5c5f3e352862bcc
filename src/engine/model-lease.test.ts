// Leases on models of the pool: how long a model stays loaded, and what aborting a wait for one does.

import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { createModelPool, type PooledModel } from "./model-pool.js";

const PATH = fileURLToPath(import.meta.url);
const IDLE_MS = 5;

/** A pool of one model that loads when `arrive` is called, and is unloaded when it is idle. */
function setUp() {
  let arrive!: () => void;
  let unloads = 0;
  const loaded = new Promise<PooledModel>((resolve) => {
    const model = { engine: { name: "a" }, isLost: false, [Symbol.asyncDispose]: async () => void unloads++ };
    arrive = () => resolve(model as unknown as PooledModel);
  });
  const pool = createModelPool({ models: [{ name: "a", path: PATH }], load: () => loaded, idleTimeoutMs: IDLE_MS });
  return { pool, arrive, unloads: () => unloads };
}

const idle = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 20 * IDLE_MS));

test("a model stays loaded until every lease is disposed; disposing one twice counts once", async () => {
  const { pool: created, arrive, unloads } = setUp();
  await using pool = created;
  arrive();
  const [one, other] = [await pool.acquire("a"), await pool.acquire("a")];
  expect(one.model).toBe(other.model);
  one[Symbol.dispose]();
  one[Symbol.dispose]();
  await idle();
  expect(unloads()).toBe(0);
  other[Symbol.dispose]();
  await idle();
  expect(unloads()).toBe(1);
});

test("an aborted wait ends with the signal's reason, and its model is released once it is loaded", async () => {
  const { pool: created, arrive, unloads } = setUp();
  await using pool = created;
  const controller = new AbortController();
  const lease = pool.acquire("a", controller.signal);
  const reason = new Error("the client disconnected");
  controller.abort(reason);
  await expect(lease).rejects.toBe(reason);
  await idle();
  expect(unloads()).toBe(0);
  arrive();
  await idle();
  expect(unloads()).toBe(1);
});
