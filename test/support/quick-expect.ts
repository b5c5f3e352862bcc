// Assertions for loops of many thousands: vitest's `expect` takes ten microseconds, even where it holds.

import { expect } from "vitest";

/** As `expect(found).toBe(expected)`. */
export function expectIs<Value>(found: Value, expected: Value): void {
  if (!Object.is(found, expected)) expect(found).toBe(expected);
}

/** As `expect(found).toBeLessThanOrEqual(most)`. */
export function expectAtMost(found: number, most: number): void {
  if (!(found <= most)) expect(found).toBeLessThanOrEqual(most);
}
