import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { readPackedLines } from "../../test/support/packed-json.js";
import { expectAtMost } from "../../test/support/quick-expect.js";
import { ENCODABLE, codecFor, decodeTensor, encodeTensor } from "./codec.js";
import { SUPPORTED, type SupportedTypeName } from "./layout.js";

interface GoldenRow {
  readonly type: string;
  readonly id: number;
  readonly bytes: string;
  readonly values: readonly (number | string | null)[];
}

const golden = readPackedLines(
  new URL("../../test/fixtures/golden/dequantize.jsonl.br", import.meta.url),
) as readonly GoldenRow[];

/** Deterministic standard normal values, so that a bound on the error means something. */
function gaussian(count: number, seed: number): Float32Array {
  let state = seed >>> 0;
  const uniform = (): number => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return (state + 0.5) / 2 ** 32;
  };
  return Float32Array.from(
    { length: count },
    () => Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform()),
  );
}

function relativeError(type: SupportedTypeName, values: Float32Array): number {
  const decoded = decodeTensor(type, encodeTensor(type, values), values.length);
  let missed = 0;
  let total = 0;
  for (let index = 0; index < values.length; index++) {
    missed += (decoded[index] - values[index]) ** 2;
    total += values[index] ** 2;
  }
  return Math.sqrt(missed / total);
}

describe("decoders against llama.cpp", () => {
  for (const layout of SUPPORTED) {
    if (layout.name === "F32" || layout.name === "BF16") continue; // not in the golden file: "by bit arithmetic" below
    it(`${layout.name} is bit-equal`, () => {
      const row = golden.find((candidate) => candidate.id === layout.id);
      expect(row?.type.toUpperCase()).toBe(layout.name);
      if (row === undefined) return;
      const decoded = decodeTensor(layout.name, Uint8Array.from(Buffer.from(row.bytes, "hex")), row.values.length);
      const differing = row.values.flatMap((value, index) => {
        const expected = typeof value === "number" ? Math.fround(value) : Number.NaN;
        return Object.is(decoded[index], expected) ? [] : [{ index, expected, found: decoded[index] }];
      });
      expect(differing).toEqual([]);
    });
  }
});

describe("floats by bit arithmetic", () => {
  const bits = (values: Float32Array): Uint32Array => new Uint32Array(values.buffer, values.byteOffset, values.length);

  it("F32 keeps every bit", () => {
    const patterns = Uint32Array.from({ length: 4096 }, (_, index) => Math.imul(index, 0x9e37_79b1) >>> 0);
    const quiet = patterns.filter((pattern) => (pattern & 0x7f80_0000) !== 0x7f80_0000);
    expect(bits(decodeTensor("F32", new Uint8Array(quiet.buffer), quiet.length))).toEqual(quiet);
  });

  it("BF16 is the upper half of an F32", () => {
    const patterns = Uint16Array.from({ length: 65_536 }, (_, pattern) => pattern).filter(
      (pattern) => (pattern & 0x7f80) !== 0x7f80,
    );
    const decoded = decodeTensor("BF16", new Uint8Array(patterns.buffer), patterns.length);
    expect(bits(decoded)).toEqual(Uint32Array.from(patterns, (pattern) => (pattern << 16) >>> 0));
  });
});

describe("NVFP4 scales", () => {
  it("reads the code that would be NaN as zero, and the one below it as the largest", () => {
    const block = new Uint8Array(36).fill(0x22);
    block.set([0x7f, 0x7e, 0, 0], 0);
    const values = decodeTensor("NVFP4", block, 64);
    expect(values.subarray(0, 16).every((value) => value === 0)).toBe(true);
    expect(values[16]).toBe(448);
  });
});

describe("every codec", () => {
  for (const layout of SUPPORTED) {
    const { name, blockBytes, blockElements } = layout;
    it(`${name} decodes any bytes, at any offset, into exactly its own range`, () => {
      const codec = codecFor(name);
      const bytes = fc.uint8Array({ minLength: blockBytes * 3, maxLength: blockBytes * 3 });
      fc.assert(
        fc.property(bytes, fc.nat(5), fc.nat(5), (source, byteOffset, outOffset) => {
          const shifted = new Uint8Array(byteOffset + source.length);
          shifted.set(source, byteOffset);
          const guarded = new Float32Array(outOffset + blockElements * 3 + 4).fill(42.5);
          codec.decode(shifted, byteOffset, guarded, outOffset, 3);
          const plain = decodeTensor(name, source, blockElements * 3);
          expect(guarded.subarray(outOffset, outOffset + plain.length)).toEqual(plain);
          expect(guarded.subarray(0, outOffset).every((value) => value === 42.5)).toBe(true);
          expect(guarded.subarray(outOffset + plain.length).every((value) => value === 42.5)).toBe(true);
        }),
        { numRuns: 30 },
      );
    });

    it(`${name} lets a scale of NaN or infinity through`, () => {
      const full = decodeTensor(name, new Uint8Array(blockBytes * 2).fill(0xff), blockElements * 2);
      expect(full.length).toBe(blockElements * 2);
      const hasHalfScale = !["MXFP4", "NVFP4"].includes(name);
      expect(full.some((value) => Number.isNaN(value))).toBe(hasHalfScale);
    });

    it(`${name} rejects sizes that do not fit`, () => {
      const bytes = new Uint8Array(blockBytes * 2);
      const sizeError = expect.objectContaining({ code: "QUANT_SIZE" });
      expect(() => decodeTensor(name, bytes, blockElements)).toThrow(sizeError);
      expect(() => decodeTensor(name, bytes, 2 ** 40)).toThrow(sizeError);
      expect(() => decodeTensor(name, bytes, -blockElements)).toThrow(sizeError);
      expect(() => decodeTensor(name, bytes, blockElements * 2 + 0.5)).toThrow(sizeError);
      expect(() => codecFor(name).decode(bytes, 1, new Float32Array(blockElements * 2), 0, 2)).toThrow(sizeError);
      expect(() => codecFor(name).decode(bytes, 0, new Float32Array(blockElements), 0, 2)).toThrow(sizeError);
    });
  }
});

describe("encoders", () => {
  it("exist for the types that are promised", () => {
    expect([...ENCODABLE].sort()).toEqual(["BF16", "F16", "F32", "Q4_0", "Q4_K", "Q6_K", "Q8_0"]);
  });

  it("rejects a type without one, and lists those with one", () => {
    expect(() => encodeTensor("Q3_K", new Float32Array(256))).toThrow(/Q3_K.*F32, F16, BF16, Q4_0, Q8_0, Q4_K, Q6_K/);
    expect(() => encodeTensor("Q3_K", new Float32Array(256))).toThrow(
      expect.objectContaining({ code: "QUANT_UNSUPPORTED" }),
    );
    expect(() => encodeTensor("Q4_K", new Float32Array(100))).toThrow(expect.objectContaining({ code: "QUANT_SIZE" }));
  });

  // Relative root-mean-square error of standard normal values, a percent or two above what was measured, so that a
  // search that finds worse scales fails. (Skipping the refinement in OffsetFit costs Q4_K half a percent.)
  const bounds = { F32: 0, F16: 2.2e-4, BF16: 1.7e-3, Q8_0: 0.0055, Q4_0: 0.0875, Q4_K: 0.072, Q6_K: 0.018 } as const;
  for (const [type, bound] of Object.entries(bounds)) {
    it(`${type} stays within a relative error of ${bound}`, () => {
      expect(relativeError(type as SupportedTypeName, gaussian(256 * 256, 7))).toBeLessThanOrEqual(bound);
    });
  }

  for (const type of ENCODABLE) {
    const { blockElements } = codecFor(type).layout;
    const elements = Math.max(blockElements, 32) * 2;

    it(`${type} keeps zeros`, () => {
      expect(
        decodeTensor(type, encodeTensor(type, new Float32Array(elements)), elements).every((value) => value === 0),
      ).toBe(true);
    });

    it(`${type} turns a block with NaN or infinity into one that shows it`, () => {
      for (const poison of [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]) {
        const values = gaussian(elements, 3);
        values[blockElements === 1 ? 5 : blockElements + 5] = poison;
        const decoded = decodeTensor(type, encodeTensor(type, values), elements);
        expect(decoded.some((value) => !Number.isFinite(value))).toBe(true);
        if (blockElements > 1)
          expect(decoded.subarray(0, blockElements).every((value) => Number.isFinite(value))).toBe(true);
      }
    });

    it(`${type} is stable for any finite block`, () => {
      const value = fc.float({ noNaN: true, noDefaultInfinity: true, min: -1000, max: 1000 });
      fc.assert(
        fc.property(fc.array(value, { minLength: elements, maxLength: elements }), (array) => {
          const values = Float32Array.from(array);
          const decoded = decodeTensor(type, encodeTensor(type, values), elements);
          const peak = values.reduce((most, entry) => Math.max(most, Math.abs(entry)), 0);
          for (let index = 0; index < elements; index++) {
            // Scales below the smallest half vanish, so a tiny block may decode to zero.
            expectAtMost(Math.abs(decoded[index] - values[index]), peak * 0.2 + 1e-4);
          }
        }),
        { numRuns: 40 },
      );
    });
  }

  it("writes the scale and the levels of Q4_0 and Q8_0 as ggml does", () => {
    const ramp = Float32Array.from({ length: 32 }, (_, index) => index - 16);
    const q4 = encodeTensor("Q4_0", ramp);
    expect([...q4.subarray(0, 4)]).toEqual([0x00, 0x40, 0x80, 0x91]);
    const q8 = encodeTensor("Q8_0", ramp);
    expect(q8[2]).toBe(129); // -16 / (16 / 127) = -127
    expect(q8[33]).toBe(119); // 15 / (16 / 127) = 119.06
  });
});
