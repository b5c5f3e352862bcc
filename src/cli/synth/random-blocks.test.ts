import { describe, expect, it } from "vitest";
import { decodeTensor } from "../../quant/codec.js";
import { SUPPORTED } from "../../quant/layout.js";
import { RandomWeights } from "./random-blocks.js";

const SIZE = 0.02;
const ELEMENTS = 256 * 200;
/** Scales of so few bits come no nearer. */
const NEAREST = { MXFP4: 0.5, NVFP4: 0.25 } as Readonly<Record<string, number>>;

describe("random weights", () => {
  it.each(SUPPORTED.map((layout) => [layout.name, layout] as const))(
    "of type %s have the size asked for and no lean",
    (name, { blockElements, blockBytes }) => {
      const bytes = Buffer.concat(
        [...new RandomWeights(7).chunks(name, ELEMENTS, SIZE)].map((chunk) => Buffer.from(chunk)),
      );
      expect(bytes).toHaveLength((ELEMENTS / blockElements) * blockBytes);
      const values = decodeTensor(name, bytes, ELEMENTS);
      const mean = values.reduce((sum, value) => sum + value, 0) / ELEMENTS;
      const size = Math.sqrt(values.reduce((sum, value) => sum + value * value, 0) / ELEMENTS);
      expect(Math.abs(size / SIZE - 1)).toBeLessThan(NEAREST[name] ?? 0.1);
      expect(Math.abs(mean)).toBeLessThan(SIZE / 8);
    },
  );

  it("come in bounded chunks, the last one as short as it must be", () => {
    const elements = 32 * 123_457;
    const lengths = [...new RandomWeights(1).chunks("Q8_0", elements, SIZE)].map((chunk) => chunk.length);
    expect(Math.max(...lengths)).toBeLessThanOrEqual(2 ** 21);
    expect(lengths.length).toBeGreaterThan(1);
    expect(lengths.reduce((sum, length) => sum + length, 0)).toBe(123_457 * 34);
  });

  it("never hold the -128 that quantisers do not write", () => {
    const [bytes] = new RandomWeights(3).chunks("Q8_0", 32 * 1000, SIZE);
    const quants = Array.from({ length: 1000 }, (_, block) => [
      ...bytes.subarray(block * 34 + 2, block * 34 + 34),
    ]).flat();
    expect(quants).not.toContain(0x80);
    expect(new Set(quants).size).toBeGreaterThan(100);
  });

  it("follow from the seed alone", () => {
    const make = (seed: number): Buffer => Buffer.concat([...new RandomWeights(seed).chunks("Q4_K", 256 * 8, SIZE)]);
    expect(make(5)).toEqual(make(5));
    expect(make(5)).not.toEqual(make(6));
  });
});
