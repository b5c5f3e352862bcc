import { expect, test } from "vitest";
import { TemplateTurns } from "./template-queue.js";

/** Whether it has settled by now, and how. */
async function stateOf(promise: Promise<boolean>): Promise<boolean | "waits" | "left"> {
  const late = new Promise<"waits">((resolve) => setTimeout(() => resolve("waits"), 0));
  return await Promise.race([promise.catch(() => "left" as const), late]);
}

test("a template has its turns in order, and another has its own", async () => {
  const turns = new TemplateTurns(1, 10);
  expect(await turns.take("a", undefined)).toBe(true);
  const [second, third] = [turns.take("a", undefined), turns.take("a", undefined)];
  expect(await turns.take("b", undefined)).toBe(true);
  expect([await stateOf(second), await stateOf(third)]).toEqual(["waits", "waits"]);
  turns.giveBack("a");
  expect([await stateOf(second), await stateOf(third)]).toEqual([true, "waits"]);
  turns.giveBack("a");
  expect(await third).toBe(true);
});

test("who leaves the line is not waited for, and too many are told so", async () => {
  const turns = new TemplateTurns(1, 2);
  await turns.take("a", undefined);
  const leaving = new AbortController();
  const [second, third] = [turns.take("a", leaving.signal), turns.take("a", undefined)];
  expect(await turns.take("a", undefined)).toBe(false);
  leaving.abort();
  expect(await stateOf(second)).toBe("left");
  turns.giveBack("a");
  expect(await third).toBe(true);
  turns.giveBack("a");
  // All is given back: as at first.
  expect(await turns.take("a", AbortSignal.abort())).toBe(true);
});
