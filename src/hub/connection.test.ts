import { getEventListeners } from "node:events";
import { expect, test } from "vitest";
import { Connection } from "./connection.js";

const never = new Promise<never>(() => {});

test("a pending promise is rejected when the request ends, by its caller's signal or by itself", async () => {
  const caller = new AbortController();
  const reason = new Error("enough");
  using aborted = new Connection(caller.signal);
  const waiting = aborted.unlessEnded(never);
  caller.abort(reason);
  await expect(waiting).rejects.toBe(reason);
  await expect(aborted.unlessEnded(never)).rejects.toBe(reason);
  expect(aborted.signal.reason).toBe(reason);
  using late = new Connection(caller.signal);
  expect(late.signal.aborted).toBe(true);
  using silent = new Connection(undefined);
  silent.end(reason);
  await expect(silent.unlessEnded(never)).rejects.toBe(reason);
});

test("gives what comes first, and forgets its caller's signal", async () => {
  const { signal } = new AbortController();
  const connection = new Connection(signal);
  expect(await connection.unlessEnded(Promise.resolve(7))).toBe(7);
  connection[Symbol.dispose]();
  expect(getEventListeners(signal, "abort")).toHaveLength(0);
});
