import { expect, test } from "vitest";
import { type Divisible, TimeShare } from "./time-share.js";

function spin(milliseconds: number): void {
  const end = performance.now() + milliseconds;
  while (performance.now() < end);
}

function* work(turns: number, name: string, done: string[] = [], spinMs = 1): Divisible<string> {
  for (let turn = 0; turn < turns; turn++) {
    spin(spinMs);
    yield;
  }
  done.push(name);
  return name;
}

test("short work is done at once where nothing waits", async () => {
  const share = new TimeShare(() => true);
  const done: string[] = [];
  const result = share.run(work(0, "short", done));
  expect(done).toEqual(["short"]);
  expect(await result).toBe("short");
});

test("long work is done in turns, between which others run", async () => {
  const share = new TimeShare(() => false);
  let turns = 0;
  const counting = setInterval(() => turns++, 0);
  expect(await share.run(work(60, "long"))).toBe("long");
  clearInterval(counting);
  expect(turns).toBeGreaterThan(3);
});

test("a long job does not hold up a shorter one", async () => {
  const share = new TimeShare(() => false);
  const done: string[] = [];
  await Promise.all([share.run(work(100, "long", done)), share.run(work(8, "short", done))]);
  expect(done).toEqual(["short", "long"]);
});

test("while others wait, most of the time is theirs", async () => {
  const share = new TimeShare(() => true);
  const startMs = performance.now();
  await share.run(work(20, "long"));
  expect(performance.now() - startMs).toBeGreaterThan(40);
  share.doNow(() => spin(2));
  expect(share.isFree).toBe(false);
  await expect.poll(() => share.isFree).toBe(true);
});

test("aborted work ends", async () => {
  const share = new TimeShare(() => false);
  const leaving = new AbortController();
  const done: string[] = [];
  const long = share.run(work(1000, "long", done), leaving.signal);
  leaving.abort(new Error("gone"));
  await expect(long).rejects.toThrow("gone");
  expect(await share.run(work(1, "next", done))).toBe("next");
  expect(done).toEqual(["next"]);
});

test("what fails, fails alone", async () => {
  const share = new TimeShare(() => false);
  // oxlint-disable-next-line require-yield
  const failing = function* (): Divisible<never> {
    throw new Error("no");
  };
  const results = await Promise.allSettled([
    share.run(work(10, "one")),
    share.run(failing()),
    share.run(work(10, "two")),
  ]);
  expect(results.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
});
