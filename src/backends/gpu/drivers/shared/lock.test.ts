import { describe, expect, it } from "vitest";
import { Lock } from "./lock.js";

describe("a lock", () => {
  it("is free at once, and given on in the order of asking", async () => {
    const lock = new Lock();
    expect(lock.isIdle).toBe(true);
    expect(lock.take()).toBeUndefined();
    const order: number[] = [];
    const turns = [1, 2, 3].map(async (name) => {
      await lock.take();
      order.push(name);
      await Promise.resolve();
      lock.release();
    });
    let idle = false;
    const watching = lock.whenIdle().then(() => (idle = true));
    await Promise.resolve();
    expect([order.length, idle, lock.isIdle]).toEqual([0, false, false]);
    lock.release();
    await Promise.all(turns);
    await watching;
    expect(order).toEqual([1, 2, 3]);
    expect(lock.isIdle).toBe(true);
    await lock.whenIdle();
  });
});
