import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { CacheOrder, checkedPairs } from "./cache-order.js";

describe("pairs of blocks", () => {
  it("are the caller's no more", () => {
    const pairs = Int32Array.of(0, 3, 0, 1);
    const checked = checkedPairs(pairs, 4);
    pairs.fill(9);
    expect(checked).toEqual(Int32Array.of(0, 3, 0, 1));
    expect(checkedPairs(new Int32Array(0), 4)).toHaveLength(0);
  });

  it("rejects exactly those whose outcome would depend on an order, or that leave the cache", () => {
    const BLOCKS = 5;
    fc.assert(
      fc.property(fc.array(fc.integer({ min: -1, max: BLOCKS }), { maxLength: 7 }), (blocks) => {
        const targets = blocks.filter((_, index) => index % 2 === 1);
        const sources = blocks.filter((_, index) => index % 2 === 0);
        const isGood =
          blocks.length % 2 === 0 &&
          blocks.every((block) => block >= 0 && block < BLOCKS) &&
          new Set(targets).size === targets.length &&
          !sources.some((block) => targets.includes(block));
        const check = (): unknown => checkedPairs(Int32Array.from(blocks), BLOCKS);
        if (isGood) expect(check()).toEqual(Int32Array.from(blocks));
        else expect(check).toThrow(expect.objectContaining({ code: "BACKEND_STEP" }));
      }),
    );
  });
});

describe("the order of a cache", () => {
  it("lets steps and copies begin at once where nothing is under way", () => {
    const order = new CacheOrder();
    let copies = 0;
    order.copy(() => copies++);
    expect(order.enter()).toBeUndefined();
    expect(order.enter()).toBeUndefined();
    order.leave();
    order.leave();
    order.copy(() => copies++);
    expect(copies).toBe(2);
  });

  it("gives a copy the cache to itself, after what was asked for earlier and before what comes later", async () => {
    const plans = fc.array(fc.record({ isCopy: fc.boolean(), turns: fc.nat({ max: 3 }) }), { maxLength: 20 });
    await fc.assert(
      fc.asyncProperty(plans, async (plan) => {
        const order = new CacheOrder();
        const done = new Set<number>();
        const began = new Set<number>();
        let running = 0;
        const begin = (index: number): void => {
          began.add(index);
          // Every copy that was asked for earlier is made.
          for (let earlier = 0; earlier < index; earlier++) if (plan[earlier].isCopy) expect(done).toContain(earlier);
        };
        const copy = (index: number): void => {
          expect(running).toBe(0);
          begin(index);
          for (let other = 0; other < plan.length; other++)
            expect(other < index ? done.has(other) : other > index && began.has(other)).toBe(other < index);
          done.add(index);
        };
        const step = async (index: number, turns: number): Promise<void> => {
          await order.enter();
          running++;
          begin(index);
          for (let turn = 0; turn < turns; turn++) await Promise.resolve();
          running--;
          done.add(index);
          order.leave();
        };
        await Promise.all(
          plan.map(({ isCopy, turns }, index) => (isCopy ? order.copy(() => copy(index)) : step(index, turns))),
        );
        expect(done.size).toBe(plan.length);
      }),
    );
  });

  it("throws what a copy throws, and goes on", () => {
    const order = new CacheOrder();
    expect(() => order.copy(() => fail("torn"))).toThrow("torn");
    expect(order.enter()).toBeUndefined();
  });

  it("rejects everything after a copy that failed when nobody was there to be told, and still gives memory back", async () => {
    const order = new CacheOrder();
    let made = 0;
    let freed = 0;
    expect(order.enter()).toBeUndefined();
    order.copy(() => fail("torn"));
    order.copy(() => made++);
    const waiting = order.enter();
    order.leave();
    await expect(waiting).rejects.toThrow("torn");
    order.alone(() => freed++);
    expect([made, freed]).toEqual([0, 0]);
    order.leave();
    expect([made, freed]).toEqual([0, 1]);
    await expect(order.enter()).rejects.toThrow("torn");
    expect(() => order.copy(() => made++)).toThrow("torn");
  });
});

function fail(reason: string): never {
  throw new Error(reason);
}
