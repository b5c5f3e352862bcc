import { afterEach, describe, expect, it, vi } from "vitest";
import { GpuError } from "../../../errors.js";
import type { CopyQueue } from "./copy-queue.js";
import type { GpuDevice } from "../drivers/shared/driver.js";
import { PinnedRing } from "./pinned-ring.js";

/** A ring whose driver pins at most `most` chunks, and whose copies are done at once. */
function ringOf(most: number): PinnedRing {
  let pinned = 0;
  const device = {
    allocateHost: (sizeBytes: number) => {
      if (pinned === most) throw new GpuError("GPU_OUT_OF_MEMORY", "hipHostMalloc: out of memory", {});
      return { address: BigInt(++pinned), bytes: new Uint8Array(Math.min(sizeBytes, 16)) };
    },
    createEvent: () => 1n,
    destroyEvent: () => undefined,
    freeHost: () => undefined,
  };
  const copies = { mark: (_: unknown, done: () => void) => queueMicrotask(done) };
  return new PinnedRing(device as unknown as GpuDevice, copies as unknown as CopyQueue);
}

describe("PinnedRing", () => {
  const heard: string[] = [];
  const spy = vi.spyOn(process, "emitWarning").mockImplementation((warning) => void heard.push(String(warning)));
  afterEach(() => void heard.splice(0));

  it("goes on with fewer chunks if the driver pins no more, and says so once", async () => {
    using ring = ringOf(2);
    const [first, second] = [await ring.take(), await ring.take()];
    const third = ring.take();
    const fourth = ring.take();
    ring.returnAfterCopy(first);
    ring.returnUnused(second);
    expect(await Promise.all([third, fourth])).toEqual(expect.arrayContaining([first, second]));
    expect(heard).toHaveLength(1);
    expect(heard[0]).toMatch(/pinned 2 of 4 chunks .* more slowly: .*out of memory/);
  });

  it("takes four chunks without a word where it can", async () => {
    using ring = ringOf(8);
    const taken = [await ring.take(), await ring.take(), await ring.take(), await ring.take()];
    expect(new Set(taken).size).toBe(4);
    expect(heard).toEqual([]);
  });

  it("throws if nothing can be pinned", async () => {
    using ring = ringOf(0);
    await expect(ring.take()).rejects.toThrow("out of memory");
    expect(spy).toBeDefined();
  });
});
