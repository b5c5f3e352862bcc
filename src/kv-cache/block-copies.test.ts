import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { BlockCopies } from "./block-copies.js";

describe("BlockCopies", () => {
  it("gathers copies and hands them over once", () => {
    const batches: number[][] = [];
    const copies = new BlockCopies((pairs) => batches.push([...pairs]));
    copies.add(1, 2);
    copies.add(1, 3);
    copies.flush();
    copies.flush();
    expect(batches).toEqual([[1, 2, 1, 3]]);
  });

  it("gives the same contents as copying one by one, in batches whose order does not matter", () => {
    const pair = fc.tuple(fc.nat(5), fc.nat(5)).filter(([from, to]) => from !== to);
    fc.assert(
      fc.property(fc.array(pair, { maxLength: 20 }), (pairs) => {
        const expected = [0, 1, 2, 3, 4, 5];
        for (const [from, to] of pairs) expected[to] = expected[from];
        const found = [0, 1, 2, 3, 4, 5];
        const copies = new BlockCopies((batch) => {
          const targets = batch.filter((_, index) => index % 2 === 1);
          expect(new Set(targets).size).toBe(targets.length);
          for (let index = 0; index < batch.length; index += 2) {
            expect(targets).not.toContain(batch[index]);
            found[batch[index + 1]] = found[batch[index]];
          }
        });
        for (const [from, to] of pairs) copies.add(from, to);
        copies.flush();
        expect(found).toEqual(expected);
      }),
    );
  });
});
