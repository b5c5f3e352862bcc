// Garbage is collected automatically once there is enough of it.

import { setImmediate as turn } from "node:timers/promises";
import { afterEach, expect, it, vi } from "vitest";
import { collectGarbage, startGarbageChecks } from "./garbage.js";

/** Of small objects: large ones have other ways to go. */
function makeGarbage(items: number): WeakRef<object> {
  const list = Array.from({ length: items }, (_, index) => ({ index, text: `item ${index}` }));
  return new WeakRef(list[items - 1]);
}

afterEach(() => vi.useRealTimers());

it("is collected on request", async () => {
  const made = makeGarbage(1000);
  // What a WeakRef points to stays for the turn it was made in.
  await turn();
  collectGarbage();
  expect(made.deref()).toBeUndefined();
});

it("is collected after a while if there is much of it", async () => {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
  collectGarbage();
  startGarbageChecks();
  const made = makeGarbage(200_000);
  await turn();
  vi.advanceTimersByTime(30_000);
  expect(made.deref()).toBeUndefined();
});
