import { describe, expect, it } from "vitest";
import type { AttentionOperation } from "../../../graph/operation.js";
import { decodeBlockHeads, splitRows } from "../memory/kv-layout.js";
import type { LoweringContext } from "./context.js";
import { type DecodeHeads, decodeHeads } from "./decode-heads.js";
import { KernelChoices } from "./kernel-choices.js";
import { exactSize } from "./step-bucket.js";
import type { LaunchSize } from "./launch.js";

const ATTENTION = { heads: 32, kvHeads: 4, keyWidth: 128, valueWidth: 128 } as AttentionOperation;
const KEY = "f16 32of4x128+128";

function headsOf(choices = new KernelChoices({ deterministic: false }), operation = ATTENTION): DecodeHeads {
  const limits = { kvCacheType: "f16" };
  const options = { device: { multiprocessors: 132 }, kind: "cuda", limits };
  const context = { options, choices } as unknown as LoweringContext;
  return decodeHeads(context, operation, (blockHeads) => ({ BLOCK_HEADS: blockHeads }));
}

function sizeOf(tokens: number, longest = 1): LaunchSize {
  return exactSize({ tokens, sequences: tokens, outputs: tokens, scored: 0, tiles: tokens, longest, longestRun: 1 });
}

describe("decodeHeads", () => {
  it("gives a block the most heads that leave the device no fewer blocks than it runs at once", () => {
    const { counts, indexFor } = headsOf();
    const usual = decodeBlockHeads("f16", ATTENTION, "cuda");
    expect(usual.every((count) => counts.includes(count))).toBe(true);
    for (const tokens of [1, 3, 8, 9, 16, 17, 33, 100, 256]) {
      for (const longest of [1, 200, 3000]) {
        const size = sizeOf(tokens, longest);
        const fits = (blockHeads: number): boolean =>
          tokens * splitRows(ATTENTION, blockHeads) * size.splits <= 2 * 132;
        expect(counts[indexFor(size)]).toBe(usual[Math.max(0, usual.findLastIndex(fits))]);
      }
    }
  });

  it("takes a choice for steps of about as many tokens times splits, and no others", () => {
    const choices = new KernelChoices({ deterministic: true });
    choices.choose("decode-attention", `${KEY} b16`, { heads: 2 });
    const { counts, indexFor, tunedFor } = headsOf(choices);
    const usual = headsOf();
    expect([sizeOf(16), sizeOf(9), sizeOf(4, 500)].map((size) => counts[indexFor(size)])).toEqual([2, 2, 2]);
    for (const size of [sizeOf(8), sizeOf(17)]) expect(indexFor(size)).toBe(usual.indexFor(size));
    expect([tunedFor(sizeOf(12)).key, tunedFor(sizeOf(12)).parameters]).toEqual([`${KEY} b16`, { heads: 2 }]);
    expect(tunedFor(sizeOf(256, 100_000)).key).toBe(`${KEY} b1024`);
  });

  it("ignores a number of heads that no kernel is made for", () => {
    const choices = new KernelChoices({ deterministic: false });
    choices.choose("decode-attention", `${KEY} b1`, { heads: 5 });
    expect(headsOf(choices).indexFor(sizeOf(1))).toBe(headsOf().indexFor(sizeOf(1)));
    expect(headsOf(undefined, { ...ATTENTION, heads: 12 }).counts).toEqual([3, 2, 1]);
    expect(headsOf(undefined, { ...ATTENTION, heads: 4 }).counts).toEqual([1]);
  });

  it("is poorly cut with one head a block, and has other heads where a kernel is wrong", () => {
    const { counts, indexFor } = headsOf(new KernelChoices({ deterministic: false, poor: true }));
    expect([1, 64].map((tokens) => counts[indexFor(sizeOf(tokens))])).toEqual([1, 1]);
    const choices = new KernelChoices({ deterministic: false });
    choices.avoid({ file: "attention/decode", defines: { BLOCK_HEADS: 1 } });
    const careful = headsOf(choices);
    expect(careful.counts[careful.indexFor(sizeOf(1))]).not.toBe(1);
  });
});
