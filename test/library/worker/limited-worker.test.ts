// Threads with limits, from outside: whatever a call does, its caller gets an outcome and the next call an answer.

import { spawnSync } from "node:child_process";
import { afterEach, describe, expect, test } from "vitest";
import { DisposedError, OptionError } from "../../../src/errors.js";
import { LimitedWorker, type LimitedWorkerOptions } from "../../../src/worker/limited-worker.js";

const inside = new URL("../../../dist/worker/", import.meta.url).href;

/** A worker that does anything on command, however harmful. */
const MISBEHAVING = `
  import { answerCalls } from "${inside}answer-calls.js";
  import { Transferred } from "${inside}call-message.js";
  let calls = 0;
  const tricks = {
    count: () => ++calls,
    echo: (text) => text,
    endless: () => { for (;;); },
    regex: () => /^(a+)+$/.test("a".repeat(60) + "b"),
    throw: (text) => { throw new TypeError(text); },
    later: async (text) => { await new Promise((resolve) => setTimeout(resolve, 20)); return text; },
    never: () => new Promise(() => {}),
    fill: () => { const all = []; for (;;) all.push({ at: all.length }); },
    deep: () => { const down = () => down() + 1; return down(); },
    print: () => { console.log("out"); console.error("err"); return "printed"; },
    exit: () => process.exit(3),
    uncaught: () => { setImmediate(() => { throw new Error("from nowhere"); }); return new Promise(() => {}); },
    transfer: (length) => { const bytes = new Uint8Array(length).fill(7); return new Transferred(bytes, [bytes.buffer]); },
    wait: (shared) => { Atomics.wait(new Int32Array(shared), 0, 0); return ++calls; },
  };
  answerCalls(([trick, argument]) => tricks[trick](argument));
`;
const file = new URL(`data:text/javascript,${encodeURIComponent(MISBEHAVING)}`);

const workers: LimitedWorker[] = [];

function worker(options: Partial<LimitedWorkerOptions> = {}): LimitedWorker {
  const made = new LimitedWorker({ name: "test", file, deadlineMs: 20_000, heapMb: 32, ...options });
  workers.push(made);
  return made;
}

afterEach(async () => {
  for (const made of workers.splice(0)) await made[Symbol.asyncDispose]();
});

const answer = (value: unknown) => ({ kind: "answer", value });
/** A call that occupies its thread until it is released. */
function holding(made: LimitedWorker) {
  const shared = new SharedArrayBuffer(4);
  const outcome = made.call(["wait", shared]);
  const letGo = (): void => {
    Atomics.store(new Int32Array(shared), 0, 1);
    Atomics.notify(new Int32Array(shared), 0);
  };
  return { outcome, letGo };
}

describe("a limited worker", () => {
  test("answers in order, with one thread that keeps what it knows", async () => {
    const made = worker();
    const outcomes = await Promise.all([1, 2, 3].map(() => made.call(["count"])));
    expect(outcomes).toStrictEqual([answer(1), answer(2), answer(3)]);
    expect(await made.call(["later", "ä🦊"])).toStrictEqual(answer("ä🦊"));
    expect(made.threadsStarted).toBe(1);
  });

  test("returns what the inner side throws, and continues with the same thread", async () => {
    const made = worker();
    expect(await made.call(["throw", "no"])).toStrictEqual({ kind: "thrown", name: "TypeError", message: "no" });
    expect(await made.call(["deep"])).toMatchObject({ kind: "thrown", name: "RangeError" });
    expect(await made.call(["echo", () => {}])).toMatchObject({ kind: "thrown", name: "DataCloneError" });
    expect(await made.call(["echo", 5])).toStrictEqual(answer(5));
    expect(made.threadsStarted).toBe(1);
  });

  for (const trick of ["endless", "regex", "never"]) {
    test(`stops a call that does not end (${trick}), and answers the next with a new thread`, async () => {
      const made = worker();
      expect(await made.call([trick], { deadlineMs: 100 })).toStrictEqual({
        kind: "stopped",
        limit: "time",
        message: "had not ended after 0.1 s",
      });
      expect(await made.call(["count"])).toStrictEqual(answer(1));
      expect(made.threadsStarted).toBe(2);
    });
  }

  test("stops a call that fills the memory", async () => {
    const made = worker();
    const [full, next] = await Promise.all([made.call(["fill"]), made.call(["echo", 1])]);
    expect(full).toMatchObject({ kind: "stopped", limit: "memory" });
    expect(next).toStrictEqual(answer(1));
  });

  for (const trick of ["exit", "uncaught"]) {
    test(`survives a thread that dies (${trick})`, async () => {
      const made = worker();
      expect(await made.call([trick])).toMatchObject({ kind: "stopped", limit: "crash" });
      expect(await made.call(["echo", 1])).toStrictEqual(answer(1));
    });
  }

  test("fails every call if its module cannot be loaded", async () => {
    const made = worker({ file: new URL("data:text/javascript,throw new Error('broken')") });
    for (const outcome of await Promise.all([made.call(1), made.call(2), made.call(3)])) {
      expect(outcome).toMatchObject({ kind: "stopped", limit: "crash", message: "died: broken" });
    }
  });

  test("stops a module that does not come to its end", async () => {
    const made = worker({ file: new URL("data:text/javascript,for(;;);"), startMs: 100 });
    expect(await made.call(1)).toMatchObject({
      kind: "stopped",
      limit: "time",
      message: "had not started after 0.1 s",
    });
  });

  test("moves buffers", async () => {
    expect(await worker().call(["transfer", 3])).toStrictEqual(answer(Uint8Array.of(7, 7, 7)));
  });

  test("refuses calls when too many wait", async () => {
    const made = worker({ maxQueued: 1 });
    const { outcome, letGo } = holding(made);
    const waiting = made.call(["count"]);
    expect(await made.call(["count"])).toMatchObject({ kind: "full" });
    letGo();
    expect(await Promise.all([outcome, waiting])).toStrictEqual([answer(1), answer(2)]);
  });

  test("works with several threads at once", async () => {
    const made = worker({ threads: 2 });
    const held = holding(made);
    expect(await made.call(["count"])).toStrictEqual(answer(1));
    held.letGo();
    expect(await held.outcome).toStrictEqual(answer(1));
    expect(made.threadsStarted).toBe(2);
  });

  test("rejects aborted calls, waiting or running, and continues", async () => {
    const made = worker();
    const { outcome, letGo } = holding(made);
    const controller = new AbortController();
    const waiting = made.call(["count"], { signal: controller.signal });
    controller.abort(new Error("not wanted"));
    await expect(waiting).rejects.toThrow("not wanted");
    await expect(made.call(["count"], { signal: controller.signal })).rejects.toThrow("not wanted");
    expect(made.queued).toBe(0);
    letGo();
    await outcome;
    const second = new AbortController();
    const running = made.call(["later", 1], { signal: second.signal });
    second.abort(new Error("late"));
    await expect(running).rejects.toThrow("late");
    expect(await made.call(["count"])).toStrictEqual(answer(2));
    expect(made.threadsStarted).toBe(1);
  });

  test("ends a thread without work", async () => {
    const made = worker({ idleMs: 1 });
    expect(await made.call(["count"])).toStrictEqual(answer(1));
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect(await made.call(["count"])).toStrictEqual(answer(1));
    expect(made.threadsStarted).toBe(2);
  });

  test("keeps no process alive while it is idle, whatever was printed in it, of which nothing is shown", () => {
    const program = `
      import { LimitedWorker } from "${inside}limited-worker.js";
      const file = new URL(${JSON.stringify(file.href)});
      const worker = new LimitedWorker({ name: "test", file, deadlineMs: 20_000, idleMs: Infinity });
      console.log((await worker.call(["print"])).value);
    `;
    const args = ["--input-type=module", "-e", program];
    const { status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: "utf8", timeout: 60_000 });
    expect({ status, stdout, stderr }).toEqual({ status: 0, stdout: "printed\n", stderr: "" });
  });

  test("rejects what is under way when it is disposed, and everything after", async () => {
    const made = worker();
    const calls = [made.call(["endless"]), made.call(["count"])];
    const rejected = Promise.all(calls.map((call) => expect(call).rejects.toThrow(DisposedError)));
    await made[Symbol.asyncDispose]();
    await made[Symbol.asyncDispose]();
    await rejected;
    expect(() => made.call(["count"])).toThrow(DisposedError);
  });

  test("rejects impossible options", () => {
    expect(() => worker({ threads: 0 })).toThrow(OptionError);
    expect(() => worker({ deadlineMs: -1 })).toThrow(OptionError);
    expect(() => worker({ heapMB: 3 } as Partial<LimitedWorkerOptions>)).toThrow(OptionError);
  });
});
