import { expect, test } from "vitest";
import { TemplateQueue } from "./template-queue.js";

/** Whether it has settled by now, and how. */
async function stateOf(promise: Promise<boolean>): Promise<boolean | "waits" | "left"> {
  const late = new Promise<"waits">((resolve) => setTimeout(() => resolve("waits"), 0));
  return await Promise.race([promise.catch(() => "left" as const), late]);
}

test("requests of a template are admitted in order, and other templates have their own", async () => {
  const queue = new TemplateQueue(1, 10);
  expect(await queue.acquire("a", undefined)).toBe(true);
  const [second, third] = [queue.acquire("a", undefined), queue.acquire("a", undefined)];
  expect(await queue.acquire("b", undefined)).toBe(true);
  expect([await stateOf(second), await stateOf(third)]).toEqual(["waits", "waits"]);
  queue.release("a");
  expect([await stateOf(second), await stateOf(third)]).toEqual([true, "waits"]);
  queue.release("a");
  expect(await third).toBe(true);
});

test("an aborted request leaves the queue, and a full queue refuses another", async () => {
  const queue = new TemplateQueue(1, 2);
  await queue.acquire("a", undefined);
  const leaving = new AbortController();
  const [second, third] = [queue.acquire("a", leaving.signal), queue.acquire("a", undefined)];
  expect(await queue.acquire("a", undefined)).toBe(false);
  leaving.abort();
  expect(await stateOf(second)).toBe("left");
  queue.release("a");
  expect(await third).toBe(true);
  queue.release("a");
  // All is given back: as at first.
  expect(await queue.acquire("a", AbortSignal.abort())).toBe(true);
});
