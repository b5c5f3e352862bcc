import { afterEach, describe, expect, test, vi } from "vitest";
import type { Item } from "./items.js";
import { ResponseStore, type StoreLimits, withId } from "./store.js";

const LIMITS: StoreLimits = { storedResponses: 3, storedResponseBytes: 100_000, storedResponseMs: 1000 };

function message(id: string, text = "Hi"): Item {
  return { type: "message", role: "user", content: text, id };
}

function put(
  store: ResponseStore,
  id: string,
  {
    owner = "",
    input = [message(`${id}-in`)],
    output = [message(`${id}-out`)],
  }: { owner?: string; input?: readonly Item[]; output?: readonly Item[] } = {},
): void {
  store.put(owner, { id, response: { id }, input, output });
}

describe("stored responses", () => {
  test("are found by id, and their items too", () => {
    using store = new ResponseStore(LIMITS);
    put(store, "a");
    expect(store.get("", "a")).toMatchObject({
      response: { id: "a" },
      input: [{ id: "a-in" }],
      output: [{ id: "a-out" }],
    });
    expect([store.item("", "a-in")?.id, store.item("", "a-out")?.id, store.item("", "other")]).toEqual([
      "a-in",
      "a-out",
      undefined,
    ]);
  });

  test("are bounded in number, and the least recently used goes first, with its items", () => {
    using store = new ResponseStore(LIMITS);
    for (const id of ["a", "b", "c"]) put(store, id);
    store.get("", "a");
    put(store, "d");
    expect(["a", "b", "c", "d"].map((id) => store.get("", id) !== undefined)).toEqual([true, false, true, true]);
    expect(store.item("", "b-out")).toBeUndefined();
    expect(store.item("", "a-out")).toBeDefined();
  });

  test("are bounded in bytes, and one that is larger than all is not kept", () => {
    using store = new ResponseStore({ ...LIMITS, storedResponses: 1000, storedResponseBytes: 40_000 });
    for (let count = 0; count < 50; count++) {
      put(store, `r${count}`, { input: [message(`m${count}`, "x".repeat(1000))] });
      expect(store.sizeBytes).toBeLessThanOrEqual(40_000);
    }
    expect(store.count).toBeGreaterThan(2);
    expect(store.get("", "r49")).toBeDefined();
    const before = store.count;
    put(store, "huge", { input: [message("huge-in", "x".repeat(20_000))] });
    expect(store.get("", "huge")).toBeUndefined();
    expect(store.count).toBe(before);
  });

  test("count items that are small as what they take", () => {
    using store = new ResponseStore({ ...LIMITS, storedResponses: 1000, storedResponseBytes: 10 * 2 ** 20 });
    const input = Array.from({ length: 2000 }, (_, index) => message(`m${index}`, ""));
    for (let count = 0; count < 20; count++) put(store, `r${count}`, { input });
    expect(store.count).toBeLessThan(6);
  });

  test("keep an item as long as one of them has it", () => {
    using store = new ResponseStore(LIMITS);
    put(store, "a");
    put(store, "b", { input: [message("a-in"), message("a-out")] });
    store.delete("", "a");
    expect(store.item("", "a-out")).toBeDefined();
    store.delete("", "b");
    expect(store.item("", "a-out")).toBeUndefined();
    expect([store.count, store.sizeBytes]).toEqual([0, 0]);
  });

  test("expire, however often they are used", () => {
    let now = 0;
    using store = new ResponseStore(LIMITS, () => now);
    put(store, "a");
    now = 999;
    put(store, "b");
    expect(store.get("", "a")).toBeDefined();
    now = 1000;
    expect(store.get("", "a")).toBeUndefined();
    expect(store.item("", "a-out")).toBeUndefined();
    expect(store.get("", "b")).toBeDefined();
  });

  test("are one owner's, by id and by item", () => {
    using store = new ResponseStore(LIMITS);
    put(store, "a", { owner: "one" });
    expect([store.get("two", "a"), store.item("two", "a-out"), store.delete("two", "a")]).toEqual([
      undefined,
      undefined,
      false,
    ]);
    expect(store.get("one", "a")).toBeDefined();
    put(store, "b", { owner: "two", output: [message("a-out", "forged")] });
    expect(store.item("one", "a-out")).toMatchObject({ content: "Hi" });
  });

  test("can be none at all", () => {
    using store = new ResponseStore({ ...LIMITS, storedResponses: 0 });
    put(store, "a");
    expect(store.count).toBe(0);
  });
});

describe("when nobody asks", () => {
  afterEach(() => void vi.useRealTimers());

  test("what has expired goes all the same", () => {
    vi.useFakeTimers();
    let now = 0;
    using store = new ResponseStore(LIMITS, () => now);
    put(store, "a");
    now = 500;
    put(store, "b");
    now = 1000;
    vi.advanceTimersByTime(1000);
    expect(store.count).toBe(1);
    now = 1500;
    vi.advanceTimersByTime(500);
    expect(store.count).toBe(0);
    expect(vi.getTimerCount()).toBe(0);
  });
});

test("an item without an id gets one of its kind", () => {
  expect(withId({ type: "function_call_output", call_id: "c", output: "x" }).id).toMatch(/^fco_[0-9a-f]{24}$/);
  expect(withId(message("mine")).id).toBe("mine");
});
