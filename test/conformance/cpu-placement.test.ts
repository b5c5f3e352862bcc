// Computing threads stay on the processors that were chosen for them, and the thread of the event loop stays where it was.

import { readdirSync, readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { afterAll, expect, it, vi } from "vitest";
import type { NativeAddon } from "../../src/backends/cpu/native-bindings.js";
import { describeCpu, requireAddon } from "./subjects.js";

const READ_BYTES = 16 << 20;

/** For each thread of this process, the processors that it may use. */
function places(): Map<string, string> {
  return new Map(
    readdirSync("/proc/self/task").map((thread) => {
      const status = readFileSync(`/proc/self/task/${thread}/status`, "utf8");
      return [thread, /^Cpus_allowed_list:\s*(\S+)/m.exec(status)?.[1] ?? ""];
    }),
  );
}

type Place = readonly [thread: string, processors: string];

/** Lets threads work until what is expected of their places holds: one that comes too late for a call stays where it is. */
async function untilWorked(
  addon: NativeAddon,
  select: (threads: readonly Place[]) => readonly Place[],
  expected: (found: readonly Place[]) => void,
): Promise<readonly Place[]> {
  return await vi.waitFor(
    async () => {
      await addon.measureReadBandwidth(READ_BYTES, 2);
      const found = select([...places()]);
      expected(found);
      return found;
    },
    { timeout: 10_000, interval: 1 },
  );
}

describeCpu("computing threads", () => {
  const isLinux = process.platform === "linux" && availableParallelism() > 1;
  afterAll(() => requireAddon().confineThreads([]));

  it.runIf(isLinux)(
    "move to the processors that they are confined to, and back (skipped except on Linux with two processors)",
    async () => {
      const addon = requireAddon();
      const own = places().get(String(process.pid)) ?? "";
      const [first] = own.split(/[-,]/);
      addon.confineThreads([Number(first)]);
      const confined = await untilWorked(
        addon,
        (threads) => threads.filter(([, list]) => list === first),
        (found) => {
          // The thread that runs steps, and one worker.
          expect(found.length).toBeGreaterThanOrEqual(2);
        },
      );
      expect(places().get(String(process.pid))).toBe(own);
      addon.confineThreads([]);
      const names = new Set(confined.map(([thread]) => thread));
      await untilWorked(
        addon,
        (threads) => threads.filter(([thread]) => names.has(thread)),
        (found) => {
          expect(found.map(([, list]) => list)).toEqual(confined.map(() => own));
        },
      );
    },
  );

  it("are confined to processors that exist, or not at all", async () => {
    const addon = requireAddon();
    addon.confineThreads([8000]);
    await expect(addon.measureReadBandwidth(READ_BYTES, 2)).resolves.toBeGreaterThan(0);
    expect(() => addon.confineThreads([-1])).toThrow(/processors/);
    expect(() => addon.confineThreads("0" as never)).toThrow(/processors/);
  });
});
