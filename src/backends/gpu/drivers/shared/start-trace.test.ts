import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { expect, it } from "vitest";
import { type StartPart, traced, tracedAsync } from "./start-trace.js";

it("publishes parts with their times, failed ones too, and only while there is a subscriber", async () => {
  const parts: StartPart[] = [];
  const listen = (part: unknown): void => void parts.push(part as StartPart);
  traced("unheard", () => 1);
  subscribe("rocmforge.start", listen);
  try {
    expect(traced("sum", () => 1 + 1)).toBe(2);
    expect(await tracedAsync("later", async () => "done")).toBe("done");
    await expect(tracedAsync("failed", () => Promise.reject(new Error("no")))).rejects.toThrow("no");
  } finally {
    unsubscribe("rocmforge.start", listen);
  }
  await tracedAsync("unheard", async () => {});
  expect(parts.map(({ what }) => what)).toEqual(["sum", "later", "failed"]);
  for (const { startMs, endMs } of parts) expect(endMs).toBeGreaterThanOrEqual(startMs);
});
