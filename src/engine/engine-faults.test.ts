// What must not happen to the others, or to the accounts, when something fails that nobody expects to.

import { afterEach, describe, expect, it, vi } from "vitest";
import { BackendError, FileError, GgufError, GrammarError, TensorError } from "../errors.js";
import type { TokenConstraint } from "./serving.js";
import { expectedTokens, VOCABULARY } from "./testing/simulated-device.js";
import { END_TOKEN, SimulatedEngine } from "./testing/simulated-engine.js";

const PROMPT = [3, 1, 4, 1, 5, 9, 2, 6];
const OPEN_END = { ignoreEndOfGeneration: true } as const;

function allBack({ pool, loop }: SimulatedEngine): void {
  expect(pool.availableBlocks).toBe(pool.blocks);
  expect(loop.statistics()).toMatchObject({ running: 0, queued: 0 });
}

/** Allows these tokens, one after the other, and then the end. */
function dictation(tokens: readonly number[], changes: Partial<TokenConstraint> = {}): TokenConstraint {
  let position = 0;
  const constraint: TokenConstraint = {
    allowed: () => {
      const mask = new Uint32Array(Math.ceil(VOCABULARY / 32));
      const token = tokens[position] ?? END_TOKEN;
      mask[token >> 5] |= 1 << (token & 31);
      return Promise.resolve(mask);
    },
    accept: () => void position++,
    fork: () => dictation(tokens.slice(position)),
    [Symbol.dispose]: () => {},
    ...changes,
  };
  return constraint;
}

function thrower(message: string): () => never {
  return () => {
    throw new Error(message);
  };
}

describe("a constraint that throws", () => {
  it("as it is forked takes nothing with it", async () => {
    const serving = new SimulatedEngine({ limits: { sequences: 3 } });
    const constraint = dictation([1, 2], { fork: thrower("no second one") });
    await expect(serving.complete({ prompt: Int32Array.from(PROMPT), constraint, choices: 3 }).summary).rejects.toThrow(
      "no second one",
    );
    allBack(serving);
    // All three places are there.
    const { tokens } = await serving.read(
      serving.complete({ prompt: Int32Array.from(PROMPT), choices: 3, maxTokens: 5, ...OPEN_END }),
    );
    expect(tokens[2]).toEqual(expectedTokens(PROMPT, 5));
  });

  it("as it goes fails its own request, and nobody waits for ever", async () => {
    const serving = new SimulatedEngine();
    const make = (): TokenConstraint => dictation([1, 2], { [Symbol.dispose]: thrower("will not go") });
    const ended = serving.complete({ prompt: Int32Array.of(1), constraint: make() });
    const cancelled = serving.complete({ prompt: Int32Array.of(1), constraint: make() });
    const late = serving.complete({ prompt: Int32Array.of(1), constraint: make(), timeLimitMs: 1 });
    const other = serving.read(serving.complete({ prompt: Int32Array.from(PROMPT), maxTokens: 20, ...OPEN_END }));
    cancelled.cancel();
    for (const { summary } of [ended, cancelled, late]) await expect(summary).rejects.toThrow("will not go");
    expect((await other).tokens[0]).toEqual(expectedTokens(PROMPT, 20));
    allBack(serving);
  });

  it("as it goes does not hide why a step failed, nor who else was in it", async () => {
    const serving = new SimulatedEngine();
    const constraint = dictation([1, 2], { [Symbol.dispose]: thrower("will not go") });
    serving.device.onLaunch = ({ blockTables }) => {
      if (blockTables.length === 2) serving.device.failure = new BackendError("BACKEND_STEP", "no step");
    };
    const jobs = [
      serving.complete({ prompt: Int32Array.of(1), constraint }),
      serving.complete({ prompt: Int32Array.of(2), ...OPEN_END }),
    ];
    for (const { summary } of jobs) await expect(summary).rejects.toThrow("no step");
    allBack(serving);
  });
});

describe("a constraint that checks finished texts", () => {
  const refusal = new GrammarError("GRAMMAR_INVALID", "not of its form");

  it("fails its own request where a text is none of its form, however it ends, and no other", async () => {
    const serving = new SimulatedEngine();
    const wrong = serving.complete({
      prompt: Int32Array.of(1),
      constraint: dictation([1, 2], { finish: () => Promise.reject(refusal) }),
    });
    const sudden = serving.complete({
      prompt: Int32Array.of(1),
      constraint: dictation([1, 2], { finish: () => Promise.resolve(), [Symbol.dispose]: thrower("will not go") }),
    });
    const right = serving.read(
      serving.complete({
        prompt: Int32Array.of(1),
        constraint: dictation([1, 2], { finish: () => Promise.resolve() }),
      }),
    );
    await expect(wrong.summary).rejects.toBe(refusal);
    await expect(sudden.summary).rejects.toThrow("will not go");
    expect((await right).summary).toMatchObject({ choices: [{ reason: "stop" }] });
    allBack(serving);
  });
});

describe("a loop that fails itself", () => {
  it("tells everybody, and is lost", async () => {
    const serving = new SimulatedEngine();
    const jobs = [1, 2].map((token) => serving.complete({ prompt: Int32Array.of(token) }));
    vi.spyOn(serving.pool, "allocate").mockImplementation(thrower("accounts are wrong"));
    for (const { summary } of jobs) await expect(summary).rejects.toThrow("accounts are wrong");
    expect(serving.loop.failure).toMatchObject({ message: "accounts are wrong" });
    await expect(serving.complete({ prompt: Int32Array.of(1) }).summary).rejects.toThrow("accounts are wrong");
    await serving.loop[Symbol.asyncDispose]();
    expect(serving.device.kvCache.disposed).toBe(true);
  });
});

describe("a model file that was damaged", () => {
  it.each([
    ["by itself", new GgufError("GGUF_TRUNCATED", { field: "tensor data", expected: "all of it", found: "less" })],
    [
      "as the cause",
      new TensorError("TENSOR_LOAD", "no tensor", { cause: new FileError("FILE_UNREADABLE", "no file") }),
    ],
  ])("is the end of its model, told %s", async (_how, error) => {
    const serving = new SimulatedEngine();
    serving.device.failure = error;
    const job = serving.complete({ prompt: Int32Array.from(PROMPT) });
    await expect(job.summary).rejects.toBe(error);
    serving.device.failure = undefined;
    expect(serving.loop.failure).toBe(error);
    await expect(serving.complete({ prompt: Int32Array.from(PROMPT) }).summary).rejects.toBe(error);
    allBack(serving);
  });
});

describe("a choice that is cancelled", () => {
  it.each([
    [0, [0, 5, 5], ["abort", "length", "length"]],
    [1, [5, 0, 5], ["length", "abort", "length"]],
  ])(
    "while the prompt is read leaves its place to others, who go on (choice %i)",
    async (cancelled, lengths, reasons) => {
      const serving = new SimulatedEngine({ limits: { sequences: 3 } });
      const job = serving.complete({ prompt: Int32Array.from(PROMPT), choices: 3, maxTokens: 5, ...OPEN_END });
      job.cancel(cancelled);
      const { tokens, summary } = await serving.read(job);
      expect(tokens.map((own) => own.length)).toEqual(lengths);
      expect(summary.choices.map(({ reason }) => reason)).toEqual(reasons);
      allBack(serving);
    },
  );
});

describe("times", () => {
  afterEach(() => {
    vi.restoreAllMocks();
  });

  /** A clock that only steps move on. */
  function stepClock({ device }: SimulatedEngine, stepMs: (step: number) => number): void {
    let nowMs = 1000;
    vi.spyOn(performance, "now").mockImplementation(() => nowMs);
    device.onLaunch = () => (nowMs += stepMs(device.steps.length));
  }

  it("of requests that never ran are not counted, nor is what others waited", async () => {
    const ranMs: number[] = [];
    const serving = new SimulatedEngine({
      limits: { sequences: 1, queued: 2 },
      onEnd: (runningMs) => ranMs.push(runningMs),
    });
    stepClock(serving, () => 10);
    const jobs = [1, 2, 3].map((token) =>
      serving.complete({ prompt: Int32Array.of(token), maxTokens: 3, ...OPEN_END }),
    );
    const refused = serving.complete({ prompt: Int32Array.of(4) });
    await expect(refused.summary).rejects.toMatchObject({ code: "SERVING_QUEUE_FULL" });
    jobs[1].cancel();
    await Promise.all(jobs.map(({ summary }) => summary));
    // The first is told of its end while the next one's step runs.
    expect(ranMs).toEqual([40, 30]);
  });

  it("between tokens leave out the one that ended the text", async () => {
    const serving = new SimulatedEngine();
    stepClock(serving, (step) => (step === 4 ? 5000 : 10));
    const { summary } = await serving.read(
      serving.complete({ prompt: Int32Array.of(1), constraint: dictation([1, 2, 3]) }),
    );
    expect(summary.generatedTokens).toBe(3);
    expect(summary.tokensPerSecond).toBeCloseTo(100, 6);
  });
});
