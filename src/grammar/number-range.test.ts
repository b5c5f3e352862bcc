import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type Bound, decimalRange, integerRange } from "./number-range.js";
import { expressionPattern } from "./testing/expression-pattern.js";

const inside = (value: number, min: Bound | undefined, max: Bound | undefined): boolean =>
  (min === undefined || value > min.value || (value === min.value && !min.exclusive)) &&
  (max === undefined || value < max.value || (value === max.value && !max.exclusive));

const small = fc.integer({ min: -2000, max: 2000 });
const boundOf = (value: fc.Arbitrary<number>): fc.Arbitrary<Bound | undefined> => fc.option(fc.record({ value, exclusive: fc.boolean() }), { nil: undefined });

describe("ranges of whole numbers", () => {
  test("fit exactly the numbers between the bounds", () => {
    fc.assert(
      fc.property(boundOf(fc.oneof(small, small.map((value) => value / 8))), boundOf(small), fc.array(small, { minLength: 20, maxLength: 20 }), (min, max, values) => {
        const pattern = expressionPattern(integerRange({ min, max }));
        for (const value of [...values, ...[min, max].flatMap((bound) => (bound === undefined ? [] : [-1, 0, 1].map((step) => Math.trunc(bound.value) + step)))]) {
          expect({ value, fits: pattern.test(String(value === 0 ? 0 : value)) }).toEqual({ value, fits: inside(value, min, max) });
        }
      }),
      { numRuns: 500 },
    );
  });

  test("have no zeros in front and no zero below zero", () => {
    const pattern = expressionPattern(integerRange({ min: { value: -10, exclusive: false }, max: { value: 120, exclusive: false } }));
    for (const text of ["-0", "00", "07", "-01", "0120", "121", "129", "-11", "", "-", "1.0"]) expect(pattern.test(text)).toBe(false);
    for (const text of ["0", "7", "-10", "120", "119"]) expect(pattern.test(text)).toBe(true);
  });

  test("take bounds beyond 64 bits", () => {
    const pattern = expressionPattern(integerRange({ min: { value: 1e300, exclusive: false }, max: undefined }));
    expect(pattern.test(String(BigInt(1e300)))).toBe(true);
    expect(pattern.test(String(BigInt(1e300) - 1n))).toBe(false);
  });
});

describe("ranges of numbers with fractions", () => {
  const decimals = fc.tuple(fc.integer({ min: -30_000, max: 30_000 }), fc.constantFrom(1, 10, 100, 1000)).map(([value, scale]) => value / scale);

  test("fit a decimal exactly where it lies between the bounds", () => {
    fc.assert(
      fc.property(boundOf(decimals), boundOf(decimals), fc.array(decimals, { minLength: 20, maxLength: 20 }), (min, max, values) => {
        fc.pre(min !== undefined || max !== undefined);
        const pattern = expressionPattern(decimalRange({ min, max }));
        for (const value of [...values, ...[min, max].flatMap((bound) => (bound === undefined ? [] : [-0.001, 0, 0.001].map((step) => Number((bound.value + step).toFixed(4)))))]) {
          const text = String(value === 0 ? 0 : value);
          expect({ text, fits: pattern.test(text), min, max }).toEqual({ text, fits: inside(value, min, max), min, max });
        }
      }),
      { numRuns: 500 },
    );
  });

  test("read the bound's own digits, with an exponent too", () => {
    const pattern = expressionPattern(decimalRange({ min: { value: 1e-7, exclusive: false }, max: { value: 2.5e21, exclusive: true } }));
    expect(pattern.test("0.0000001")).toBe(true);
    expect(pattern.test("0.00000009")).toBe(false);
    expect(pattern.test("2499999999999999999999")).toBe(true);
    expect(pattern.test("2500000000000000000000")).toBe(false);
  });

  test("never come to lie on a bound that is exclusive, for want of digits", () => {
    const pattern = expressionPattern(decimalRange({ min: { value: 0, exclusive: true }, max: { value: 1, exclusive: true } }));
    expect(pattern.test("0.99999999999999999999")).toBe(false);
    expect(pattern.test("0.9999999")).toBe(true);
    expect(pattern.test("0")).toBe(false);
    expect(pattern.test("0.0")).toBe(false);
    expect(pattern.test("1")).toBe(false);
  });
});
