import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { decodeTensor, encodeTensor } from "./codec.js";
import { decodeBF16 } from "./float.js";
import { floatToBfloat, floatToHalf, HALF_VALUES } from "./half.js";

function bfloatToFloat(bits: number): number {
  const out = new Float32Array(1);
  decodeBF16(Uint8Array.of(bits, bits >> 8), 0, out, 0, 1);
  return out[0];
}

/** The definition, in exact f64 arithmetic. */
function halfByDefinition(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const mantissa = bits & 1023;
  if (exponent === 31) return mantissa === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN;
  return exponent === 0 ? sign * mantissa * 2 ** -24 : sign * (1024 + mantissa) * 2 ** (exponent - 25);
}

function bitsOf(value: number): number {
  return new Uint32Array(Float32Array.of(value).buffer)[0];
}

describe("half", () => {
  it("widens every pattern exactly and narrows it back", () => {
    const wrong: number[] = [];
    for (let bits = 0; bits < 0x10000; bits++) {
      const value = HALF_VALUES[bits];
      if (!Object.is(value, halfByDefinition(bits))) wrong.push(bits);
      const isNaNPattern = (bits & 0x7c00) === 0x7c00 && (bits & 0x3ff) !== 0;
      if (floatToHalf(value) !== (isNaNPattern ? bits | 0x200 : bits)) wrong.push(bits);
    }
    expect(wrong).toEqual([]);
  });

  it("rounds every midpoint to even, and its neighbours to the nearer side", () => {
    const wrong: number[] = [];
    for (let bits = 0; bits < 0x7bff; bits++) {
      const middle = (halfByDefinition(bits) + halfByDefinition(bits + 1)) / 2;
      const even = bits + (bits & 1);
      const above = middle * (1 + 2 ** -22);
      const below = middle * (1 - 2 ** -22);
      if (floatToHalf(middle) !== even || floatToHalf(-middle) !== (even | 0x8000)) wrong.push(bits);
      if (floatToHalf(above) !== bits + 1 || floatToHalf(below) !== bits) wrong.push(bits);
    }
    expect(wrong).toEqual([]);
  });

  it("overflows to infinity from 65520 on, and keeps the sign of zero", () => {
    expect(floatToHalf(65519.996)).toBe(0x7bff);
    expect(floatToHalf(65520)).toBe(0x7c00);
    expect(floatToHalf(-1e30)).toBe(0xfc00);
    expect(floatToHalf(-0)).toBe(0x8000);
    expect(floatToHalf(2 ** -25)).toBe(0);
    expect(floatToHalf(2 ** -25 * 1.0001)).toBe(1);
  });
});

describe("bfloat", () => {
  it("is the upper half of an f32, for every pattern", () => {
    const wrong: number[] = [];
    for (let bits = 0; bits < 0x10000; bits++) {
      const isNaNPattern = (bits & 0x7f80) === 0x7f80 && (bits & 0x7f) !== 0;
      const value = bfloatToFloat(bits);
      if (isNaNPattern ? !Number.isNaN(value) : bitsOf(value) !== (bits << 16) >>> 0) wrong.push(bits);
      if (floatToBfloat(value) !== (isNaNPattern ? bits | 0x40 : bits)) wrong.push(bits);
    }
    expect(wrong).toEqual([]);
  });

  it("rounds to nearest even, carries into infinity, and keeps NaN", () => {
    const word = (bits: number): number => new Float32Array(Uint32Array.of(bits).buffer)[0];
    expect(floatToBfloat(word(0x3f808000))).toBe(0x3f80);
    expect(floatToBfloat(word(0x3f818000))).toBe(0x3f82);
    expect(floatToBfloat(word(0x3f808001))).toBe(0x3f81);
    expect(floatToBfloat(word(0x7f7fffff))).toBe(0x7f80);
    expect(floatToBfloat(word(0x00000001))).toBe(0);
    expect(Number.isNaN(bfloatToFloat(floatToBfloat(Number.NaN)))).toBe(true);
  });
});

describe("F32 and BF16 tensors", () => {
  it("F32 copies every bit", () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 16, maxLength: 16 }), (bytes) => {
        const decoded = decodeTensor("F32", bytes, 4);
        expect(new Uint8Array(decoded.buffer)).toEqual(bytes);
        expect(encodeTensor("F32", decoded)).toEqual(bytes);
      }),
    );
  });

  it("BF16 shifts every pattern into place", () => {
    const patterns = Uint16Array.from({ length: 0x10000 }, (_, bits) => bits);
    const decoded = decodeTensor("BF16", new Uint8Array(patterns.buffer), patterns.length);
    const words = new Uint32Array(decoded.buffer);
    expect(patterns.every((bits, index) => words[index] === (bits << 16) >>> 0)).toBe(true);
  });
});
