import { expect, it } from "vitest";
import { retryAfter } from "./http-client.js";
import { TransferRate } from "./transfer-rate.js";

it("is the mean of the last seconds", () => {
  const rate = new TransferRate(0);
  expect(rate.bytesPerSecond(0)).toBe(0);
  for (let second = 1; second <= 4; second++) rate.add(1000, 1000 * second);
  expect(rate.bytesPerSecond(4000)).toBe(1000);
  for (let second = 5; second <= 30; second++) rate.add(3000, 1000 * second);
  expect(rate.bytesPerSecond(30_000)).toBeGreaterThan(2900);
});

it("reads both forms of Retry-After", () => {
  expect(retryAfter("7")).toBe(7000);
  expect(retryAfter("Wed, 21 Oct 2026 07:28:10 GMT", Date.parse("Wed, 21 Oct 2026 07:28:00 GMT"))).toBe(10_000);
  expect(retryAfter("Wed, 21 Oct 2026 07:28:10 GMT", Date.parse("Thu, 22 Oct 2026 07:28:00 GMT"))).toBe(0);
  expect([retryAfter("soon"), retryAfter(null)]).toEqual([undefined, undefined]);
});
