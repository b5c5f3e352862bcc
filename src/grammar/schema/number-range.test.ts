import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Bound } from "./number-bounds.js";
import { decimalRange, integerRange } from "./number-range.js";
import { expressionPattern } from "../testing/expression-pattern.js";

const inside = (value: number, min: Bound | undefined, max: Bound | undefined): boolean =>
  (min === undefined || value > min.value || (value === min.value && !min.exclusive)) &&
  (max === undefined || value < max.value || (value === max.value && !max.exclusive));

const small = fc.integer({ min: -2000, max: 2000 });
const boundOf = (value: fc.Arbitrary<number>): fc.Arbitrary<Bound | undefined> =>
  fc.option(fc.record({ value, exclusive: fc.boolean() }), { nil: undefined });

describe("ranges of whole numbers", () => {
  test("fit exactly the numbers between the bounds", () => {
    fc.assert(
      fc.property(
        boundOf(
          fc.oneof(
            small,
            small.map((value) => value / 8),
          ),
        ),
        boundOf(small),
        fc.array(small, { minLength: 20, maxLength: 20 }),
        (min, max, values) => {
          const pattern = expressionPattern(integerRange({ min, max }));
          for (const value of [
            ...values,
            ...[min, max].flatMap((bound) =>
              bound === undefined ? [] : [-1, 0, 1].map((step) => Math.trunc(bound.value) + step),
            ),
          ]) {
            expect({ value, fits: pattern.test(String(value === 0 ? 0 : value)) }).toEqual({
              value,
              fits: inside(value, min, max),
            });
          }
        },
      ),
      { numRuns: 500 },
    );
  });

  test("have no zeros in front and no zero below zero", () => {
    const pattern = expressionPattern(
      integerRange({ min: { value: -10, exclusive: false }, max: { value: 120, exclusive: false } }),
    );
    for (const text of ["-0", "00", "07", "-01", "0120", "121", "129", "-11", "", "-", "1.0"])
      expect(pattern.test(text)).toBe(false);
    for (const text of ["0", "7", "-10", "120", "119"]) expect(pattern.test(text)).toBe(true);
  });

  test("take bounds beyond 64 bits", () => {
    const pattern = expressionPattern(integerRange({ min: { value: 1e300, exclusive: false }, max: undefined }));
    expect(pattern.test(String(10n ** 300n))).toBe(true);
    expect(pattern.test(String(10n ** 300n - 1n))).toBe(false);
  });

  test("are short whatever the bounds", () => {
    for (const [low, high] of [
      [1.2345e300, 1.2345e308],
      [-Number.MAX_VALUE, Number.MAX_VALUE],
      [1.2345678901234567e200, 1.2345678901234569e200],
    ] as const) {
      for (const exclusive of [false, true]) {
        const bounds = { min: { value: low, exclusive }, max: { value: high, exclusive } };
        for (const range of [integerRange(bounds), decimalRange(bounds)])
          expect(JSON.stringify(range).length).toBeLessThan(30_000);
      }
    }
  });
});

describe("ranges of numbers with fractions", () => {
  const decimals = fc
    .tuple(fc.integer({ min: -30_000, max: 30_000 }), fc.constantFrom(1, 10, 100, 1000))
    .map(([value, scale]) => value / scale);

  test("fit a decimal exactly where it lies between the bounds", () => {
    fc.assert(
      fc.property(
        boundOf(decimals),
        boundOf(decimals),
        fc.array(decimals, { minLength: 20, maxLength: 20 }),
        (min, max, values) => {
          fc.pre(min !== undefined || max !== undefined);
          const pattern = expressionPattern(decimalRange({ min, max }));
          for (const value of [
            ...values,
            ...[min, max].flatMap((bound) =>
              bound === undefined ? [] : [-0.001, 0, 0.001].map((step) => Number((bound.value + step).toFixed(4))),
            ),
          ]) {
            const text = String(value === 0 ? 0 : value);
            expect({ text, fits: pattern.test(text), min, max }).toEqual({
              text,
              fits: inside(value, min, max),
              min,
              max,
            });
          }
        },
      ),
      { numRuns: 500 },
    );
  });

  test("have the digits of their own whole part beside the lower bound, however far the other is", () => {
    for (const high of [1e12, 1e14, 1e20]) {
      const pattern = expressionPattern(
        decimalRange({ min: { value: 0, exclusive: true }, max: { value: high, exclusive: false } }),
      );
      for (const text of ["0.5", "0.05", "0.25", "0.125", "1.5"])
        expect({ high, text, fits: pattern.test(text) }).toEqual({ high, text, fits: true });
      for (const text of ["0", "0.0", "0.00", "-0.25"])
        expect({ high, text, fits: pattern.test(text) }).toEqual({ high, text, fits: false });
    }
    const below = expressionPattern(
      decimalRange({ min: { value: -1e14, exclusive: false }, max: { value: -0.2, exclusive: true } }),
    );
    expect(["-0.25", "-0.2", "-0.125", "-1.5"].map((text) => below.test(text))).toEqual([true, false, false, true]);
  });

  test("read the bound's own digits, with an exponent too", () => {
    const pattern = expressionPattern(
      decimalRange({ min: { value: 1e-7, exclusive: false }, max: { value: 2.5e21, exclusive: true } }),
    );
    expect(pattern.test("0.0000001")).toBe(true);
    expect(pattern.test("0.00000009")).toBe(false);
    expect(pattern.test("2499999999999999000000")).toBe(true);
    // Read as a 64-bit number it is the bound.
    expect(Number("2499999999999999999999")).toBe(2.5e21);
    expect(pattern.test("2499999999999999999999")).toBe(false);
    expect(pattern.test("2500000000000000000000")).toBe(false);
  });

  test("never come to lie on a bound that is exclusive, for want of digits", () => {
    const pattern = expressionPattern(
      decimalRange({ min: { value: 0, exclusive: true }, max: { value: 1, exclusive: true } }),
    );
    expect(pattern.test("0.99999999999999999999")).toBe(false);
    expect(pattern.test("0.9999999")).toBe(true);
    expect(pattern.test("0")).toBe(false);
    expect(pattern.test("0.0")).toBe(false);
    expect(pattern.test("1")).toBe(false);
  });
});

describe("bounds of any size", () => {
  const anyNumber = fc.double({ noNaN: true, noDefaultInfinity: true });
  const near = (value: number): readonly string[] => {
    const short = Math.abs(value) < 1e21 ? [value.toFixed(0), value.toFixed(3), value.toFixed(20)] : [];
    const big = BigInt(Math.trunc(value));
    return [...short, ...[-(10n ** 5n), -1n, 0n, 1n, 10n ** 5n].map((step) => String(big + step))];
  };

  test("keep every text that they let through on its side", () => {
    fc.assert(
      fc.property(boundOf(anyNumber), boundOf(anyNumber), fc.array(anyNumber, { maxLength: 5 }), (min, max, values) => {
        fc.pre(min !== undefined || max !== undefined);
        const [whole, decimal] = [integerRange({ min, max }), decimalRange({ min, max })].map(expressionPattern) as [
          RegExp,
          RegExp,
        ];
        for (const text of [
          ...values,
          ...[min, max].flatMap((bound) => (bound === undefined ? [] : [bound.value])),
        ].flatMap(near)) {
          if (whole.test(text) || decimal.test(text))
            expect({ text, min, max, inside: inside(Number(text), min, max) }).toEqual({
              text,
              min,
              max,
              inside: true,
            });
        }
      }),
      { numRuns: 500 },
    );
  });

  test("let the bounds themselves through, as whole numbers", () => {
    const huge = anyNumber.map(Math.trunc).filter(Number.isFinite);
    fc.assert(
      fc.property(huge, huge, (a, b) => {
        const [low, high] = [Math.min(a, b), Math.max(a, b)];
        const pattern = expressionPattern(
          integerRange({ min: { value: low, exclusive: false }, max: { value: high, exclusive: false } }),
        );
        for (const value of [low, high])
          expect({ value, fits: pattern.test(shortest(value)) }).toEqual({ value, fits: true });
      }),
    );
  });

  test("leave a text where there is room for one, however close to zero", () => {
    const pattern = expressionPattern(decimalRange({ min: { value: 1e-300, exclusive: false }, max: undefined }));
    expect(pattern.test("0.5")).toBe(true);
    expect(pattern.test("0")).toBe(false);
    expect(pattern.test("0.000000000000000000000000000000000000001")).toBe(false);
    const below = expressionPattern(
      decimalRange({ min: { value: 0, exclusive: false }, max: { value: 1e-300, exclusive: true } }),
    );
    expect(["0", "0.0", "0.1", "1"].map((text) => below.test(text))).toEqual([true, true, false, false]);
  });

  /** The digits that JavaScript prints, without the exponent. */
  function shortest(value: number): string {
    const [, sign = "", first = "", after = "", exponent = "0"] =
      /^(-?)(\d+)(?:\.(\d+))?(?:e\+(\d+))?$/.exec(String(value === 0 ? 0 : value)) ?? [];
    return `${sign}${(first + after).padEnd(first.length + Number(exponent), "0")}`;
  }
});
