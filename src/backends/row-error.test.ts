import { expect, it } from "vitest";
import type { OutputRow } from "./contract.js";
import { largestError, rowError } from "./row-error.js";

const hidden = (...values: number[]): OutputRow => ({ kind: "hidden", values: Float32Array.from(values) });

it("measures each row by itself", () => {
  const expected = [hidden(100, 0), hidden(1, 0)];
  expect(largestError([hidden(100, 0), hidden(1, 0.5)], expected)).toEqual({ error: 0.25, row: 1 });
});

it("measures what was added to a residual", () => {
  const residual = Float32Array.of(10, 0);
  const [found, expected] = [Float32Array.of(10, 1.5), Float32Array.of(10, 1)];
  expect(rowError(found, expected)).toBeCloseTo(0.25 / 101, 10);
  expect(rowError(found, expected, [residual])).toBeCloseTo(0.25, 10);
});

it("takes a row that is not finite, or of another kind, for wrong", () => {
  const wrong = [{ kind: "not-finite", column: 0 } as const, hidden(Number.NaN, 1), hidden(1)];
  for (const row of wrong) expect(largestError([row], [hidden(1, 2)]).error).toBe(Number.POSITIVE_INFINITY);
});

it("judges nothing where the expected row is not finite", () => {
  expect(largestError([hidden(1)], [{ kind: "not-finite", column: 0 }]).error).toBe(0);
});

it("compares zeros with zeros", () => {
  expect(rowError(Float32Array.of(0, 0), Float32Array.of(0, 0))).toBe(0);
  expect(rowError(Float32Array.of(0, 1), Float32Array.of(0, 0))).toBe(Number.POSITIVE_INFINITY);
});
