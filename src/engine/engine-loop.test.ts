// The loop over a simulated device: what requests see of each other (nothing), of failures (their own) and of their
// end.

import { describe, expect, it } from "vitest";
import { BackendError, GpuError } from "../errors.js";
import type { TokenConstraint } from "./serving.js";
import { expectedTokens, VOCABULARY } from "./testing/simulated-device.js";
import { END_TOKEN, SimulatedEngine, textOf } from "./testing/simulated-engine.js";

const PROMPT = [3, 1, 4, 1, 5, 9, 2, 6];
const OPEN_END = { ignoreEndOfGeneration: true } as const;

function prompt(...tokens: number[]): Int32Array {
  return Int32Array.from(tokens);
}

function allBack({ pool, loop }: SimulatedEngine): void {
  expect(pool.availableBlocks).toBe(pool.blocks);
  expect(loop.statistics()).toMatchObject({ running: 0, queued: 0 });
}

/** Resolves when `count` steps have been launched. */
function launches(serving: SimulatedEngine, count: number): Promise<void> {
  return new Promise((resolve) => {
    serving.device.onLaunch = () => {
      if (serving.device.steps.length >= count) resolve();
    };
  });
}

describe("ServingLoop", () => {
  it("writes what the model predicts, and sums up", async () => {
    const serving = new SimulatedEngine();
    const { tokens, texts, summary } = await serving.read(
      serving.complete({ prompt: prompt(...PROMPT), maxTokens: 12, ...OPEN_END }),
    );
    expect(tokens[0]).toEqual(expectedTokens(PROMPT, 12));
    expect(texts[0]).toBe(textOf(tokens[0]));
    expect(summary).toMatchObject({
      promptTokens: 8,
      generatedTokens: 12,
      cachedTokens: 0,
      preemptions: 0,
      choices: [{ reason: "length", generatedTokens: 12 }],
    });
    allBack(serving);
  });

  it.each([
    [true, 64],
    [false, 64],
    [true, 17],
    [false, 17],
  ])(
    "gives each of many the text it would have alone (prefixes shared: %s, %i blocks)",
    async (sharesPrefixes, blocks) => {
      const serving = new SimulatedEngine({ sharesPrefixes, blocks });
      const prompts = Array.from({ length: 40 }, (_, index) =>
        [...PROMPT, ...PROMPT, index % 5, 7, index % 3].slice(0, 3 + (index % 17)),
      );
      const answers = await Promise.all(
        prompts.map((tokens, index) =>
          serving.read(serving.complete({ prompt: prompt(...tokens), maxTokens: 5 + (index % 30), ...OPEN_END })),
        ),
      );
      for (const [index, tokens] of prompts.entries())
        expect(answers[index].tokens[0]).toEqual(expectedTokens(tokens, 5 + (index % 30)));
      if (blocks === 17) expect(serving.loop.statistics().preemptions).toBeGreaterThan(0);
      expect(answers.some(({ summary }) => summary.cachedTokens > 0)).toBe(sharesPrefixes);
      allBack(serving);
    },
  );

  it("launches the next step before it turns the last one's tokens into text", async () => {
    const events: string[] = [];
    const serving = new SimulatedEngine({ onDecode: () => events.push("text") });
    serving.device.onLaunch = () => events.push("launch");
    await serving.read(serving.complete({ prompt: prompt(...PROMPT), maxTokens: 3, ...OPEN_END }));
    expect(events).toEqual(["launch", "launch", "text", "launch", "text", "text"]);
  });

  it("reads a prompt once for several choices, each with its own seed and its own way", async () => {
    const serving = new SimulatedEngine();
    const request = { prompt: prompt(...PROMPT, 1), maxTokens: 10, ...OPEN_END };
    const sampling = { temperature: 3, topK: 0, topP: 1, minP: 0 };
    const together = await serving.read(
      serving.complete({ ...request, choices: 4, sampling: { ...sampling, seed: 11 } }),
    );
    expect(new Set(together.texts).size).toBe(4);
    for (const [index, text] of together.texts.entries()) {
      const alone = await serving.read(serving.complete({ ...request, sampling: { ...sampling, seed: 11 + index } }));
      expect(alone.texts[0]).toBe(text);
    }
    expect(together.summary).toMatchObject({ seed: 11, generatedTokens: 40 });
    const promptTokens = serving.device.steps[0].tokens.length;
    expect(promptTokens).toBe(9);
    allBack(serving);
  });

  it("ends at a stop string across tokens, drops the token that was on its way, and says which", async () => {
    const serving = new SimulatedEngine();
    const whole = textOf(expectedTokens(PROMPT, 20));
    const stop = whole.slice(6, 9);
    const { texts, summary } = await serving.read(
      serving.complete({ prompt: prompt(...PROMPT), maxTokens: 20, stop: ["##", stop], ...OPEN_END }),
    );
    const end = whole.indexOf(stop);
    expect(texts[0]).toBe(whole.slice(0, end));
    expect(summary.choices[0]).toEqual({ reason: "stop", stop, generatedTokens: end + 3 });
    allBack(serving);
  });

  it("ends at an end-of-generation token, which is no part of the text", async () => {
    const serving = new SimulatedEngine();
    const sampling = { temperature: 0, logitBias: new Map([[END_TOKEN, 100]]) };
    expect(await serving.read(serving.complete({ prompt: prompt(1), sampling }))).toMatchObject({
      texts: [""],
      summary: { choices: [{ reason: "stop", generatedTokens: 0 }] },
    });
  });

  it("gives log-probabilities of the token and of the likeliest, whatever the sampler asks for", async () => {
    const serving = new SimulatedEngine();
    const request = { prompt: prompt(...PROMPT), maxTokens: 4, topLogprobs: 3, ...OPEN_END };
    const fromCandidates = await serving.read(serving.complete(request));
    const fromLogits = await serving.read(serving.complete({ ...request, sampling: { temperature: 1e-6, topK: 0 } }));
    const logprobs = fromCandidates.deltas.flatMap((delta) => delta.logprobs);
    expect(logprobs.map(({ token }) => token)).toEqual(fromCandidates.tokens[0]);
    expect(fromLogits.deltas.flatMap((delta) => delta.logprobs)).toEqual(logprobs);
    for (const { token, logprob, top } of logprobs) {
      expect(top).toHaveLength(3);
      expect(top[0]).toEqual({ token, logprob });
      expect(top[1].logprob).toBeLessThan(logprob);
    }
    const none = await serving.read(serving.complete({ ...request, topLogprobs: 0 }));
    expect(none.deltas[0].logprobs[0]).toMatchObject({ top: [] });
  });

  it("cancels in the queue, while the prompt is read and while it writes, and blocks come back at once", async () => {
    const serving = new SimulatedEngine({ limits: { sequences: 1, prefillTokens: 4 } });
    const controller = new AbortController();
    const first = serving.complete({ prompt: prompt(...PROMPT), ...OPEN_END });
    const queued = serving.complete({ prompt: prompt(1, 2), signal: controller.signal });
    await launches(serving, 1);
    controller.abort();
    expect((await queued.summary).choices).toEqual([{ reason: "abort", generatedTokens: 0 }]);
    // Its prompt takes two steps, and this is the first.
    expect(serving.pool.availableBlocks).toBeLessThan(serving.pool.blocks);
    first.cancel();
    expect(serving.pool.availableBlocks).toBe(serving.pool.blocks);
    expect((await first.summary).choices).toEqual([{ reason: "abort", generatedTokens: 0 }]);

    const writing = serving.complete({ prompt: prompt(...PROMPT), ...OPEN_END });
    let count = 0;
    for await (const { tokens } of writing) {
      count += tokens.length;
      if (count >= 3) break;
    }
    expect(serving.pool.availableBlocks).toBe(serving.pool.blocks);
    expect((await writing.summary).choices[0].reason).toBe("abort");
    const steps = serving.device.steps.length;
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(serving.device.steps.length).toBe(steps);
  });

  it("does nothing for a request that was cancelled before it came", async () => {
    const serving = new SimulatedEngine();
    const { summary, deltas } = await serving.read(
      serving.complete({ prompt: prompt(1), signal: AbortSignal.abort() }),
    );
    expect(deltas).toEqual([]);
    expect(summary.choices).toEqual([{ reason: "abort", generatedTokens: 0 }]);
    expect(serving.device.steps).toEqual([]);
  });

  it("ends with what is there when its time is up, waiting or writing", async () => {
    const serving = new SimulatedEngine({ limits: { sequences: 1 } });
    let open!: () => void;
    serving.device.gate = new Promise((resolve) => (open = resolve));
    const writing = serving.complete({ prompt: prompt(...PROMPT), timeLimitMs: 30, ...OPEN_END });
    const waiting = serving.complete({ prompt: prompt(1), timeLimitMs: 20 });
    expect((await waiting.summary).choices).toEqual([{ reason: "timeout", generatedTokens: 0 }]);
    expect((await writing.summary).choices[0].reason).toBe("timeout");
    open();
    allBack(serving);
  });

  it("fails the requests of a step that throws, and goes on with the others", async () => {
    const serving = new SimulatedEngine({ limits: { sequences: 2 } });
    const jobs = [1, 2, 3, 4].map((token) => serving.complete({ prompt: prompt(token), maxTokens: 3, ...OPEN_END }));
    serving.device.failure = new BackendError("BACKEND_MEMORY", "no room");
    const results = await Promise.allSettled(jobs.map((job) => serving.read(job)));
    expect(results.map(({ status }) => status)).toEqual(["rejected", "rejected", "fulfilled", "fulfilled"]);
    await expect(jobs[0].summary).rejects.toMatchObject({ code: "BACKEND_MEMORY" });
    allBack(serving);
  });

  it("fails a row that is not finite alone", async () => {
    const serving = new SimulatedEngine();
    serving.device.poison = 17;
    const jobs = [16, 17, 18].map((token) => serving.complete({ prompt: prompt(token), maxTokens: 1, ...OPEN_END }));
    const results = await Promise.allSettled(jobs.map(({ summary }) => summary));
    expect(results.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
    expect(results[1]).toMatchObject({ reason: { code: "BACKEND_NOT_FINITE" } });
  });

  it("lets nobody read what a row that is not finite was computed from", async () => {
    const serving = new SimulatedEngine();
    const long = [...PROMPT, ...PROMPT, ...PROMPT, 17];
    serving.device.poison = 17;
    await expect(serving.complete({ prompt: prompt(...long), maxTokens: 1 }).summary).rejects.toMatchObject({
      code: "BACKEND_NOT_FINITE",
    });
    serving.device.poison = -1;
    const { tokens, summary } = await serving.read(
      serving.complete({ prompt: prompt(...long), maxTokens: 3, ...OPEN_END }),
    );
    expect(summary.cachedTokens).toBe(0);
    expect(tokens[0]).toEqual(expectedTokens(long, 3));
    allBack(serving);
  });

  it("fails everybody when the device is lost, and refuses whoever comes after", async () => {
    const serving = new SimulatedEngine({ limits: { sequences: 1 } });
    const jobs = [1, 2].map((token) => serving.complete({ prompt: prompt(token) }));
    serving.device.failure = new GpuError("GPU_DEVICE_LOST", "gone");
    for (const { summary } of jobs) await expect(summary).rejects.toMatchObject({ code: "GPU_DEVICE_LOST" });
    await expect(serving.complete({ prompt: prompt(1) }).summary).rejects.toMatchObject({ code: "GPU_DEVICE_LOST" });
    allBack(serving);
  });

  it("refuses what finds the queue full, with a time to come again", async () => {
    const serving = new SimulatedEngine({ limits: { queued: 1, sequences: 1 } });
    const [first, second, third] = [1, 2, 3].map((token) => serving.complete({ prompt: prompt(token), maxTokens: 1 }));
    await expect(third[Symbol.asyncIterator]().next()).rejects.toMatchObject({
      code: "SERVING_QUEUE_FULL",
      details: { retryAfterMs: 1500 },
    });
    for (const { summary } of [first, second]) expect((await summary).generatedTokens).toBe(1);
  });

  it("ends what runs when it is disposed", async () => {
    const serving = new SimulatedEngine();
    const job = serving.complete({ prompt: prompt(...PROMPT), ...OPEN_END });
    await launches(serving, 2);
    await serving.loop[Symbol.asyncDispose]();
    await expect(job.summary).rejects.toMatchObject({ code: "DISPOSED" });
    expect(serving.device.kvCache.disposed).toBe(true);
    allBack(serving);
  });

  it("makes one vector of a text's states, of length 1, beside those who write", async () => {
    const serving = new SimulatedEngine();
    const writing = serving.complete({ prompt: prompt(...PROMPT), maxTokens: 10, ...OPEN_END });
    const tokens = Int32Array.from({ length: 30 }, (_, index) => index);
    const vectors = await Promise.all([serving.embed(tokens), serving.embed(tokens), serving.embed(prompt(4))]);
    for (const vector of vectors) expect(vector.reduce((sum, value) => sum + value * value, 0)).toBeCloseTo(1, 5);
    expect(vectors[1]).toEqual(vectors[0]);
    expect(vectors[0][2] / vectors[0][1]).toBeCloseTo(-2, 4);
    expect((await serving.read(writing)).tokens[0]).toEqual(expectedTokens(PROMPT, 10));
    await expect(serving.embed(tokens, AbortSignal.abort(new Error("enough")))).rejects.toThrow("enough");
    allBack(serving);
  });
});

/** Allows one token after the other, and answers when it likes. */
class Dictation implements TokenConstraint {
  readonly accepted: number[] = [];
  readonly forks: Dictation[] = [];
  isDisposed = false;

  constructor(
    readonly text: readonly number[],
    readonly answer: (position: number) => Promise<void> = () => Promise.resolve(),
  ) {}

  async allowed(): Promise<Uint32Array | undefined> {
    const mask = new Uint32Array(Math.ceil(VOCABULARY / 32));
    const token = this.text[this.accepted.length] ?? END_TOKEN;
    await this.answer(this.accepted.length);
    mask[token >> 5] |= 1 << (token & 31);
    return mask;
  }

  accept(token: number): void {
    this.accepted.push(token);
  }

  fork(): TokenConstraint {
    const twin = new Dictation(this.text, this.answer);
    twin.accepted.push(...this.accepted);
    this.forks.push(twin);
    return twin;
  }

  [Symbol.dispose](): void {
    this.isDisposed = true;
  }
}

describe("ServingLoop with constraints", () => {
  const pause = (ms: number) => (): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

  it("writes what is allowed, every choice of it, and lets the constraints go", async () => {
    const serving = new SimulatedEngine();
    const constraint = new Dictation([7, 7, 8], pause(1));
    const { tokens, summary } = await serving.read(serving.complete({ prompt: prompt(1), constraint, choices: 3 }));
    expect(tokens).toEqual([
      [7, 7, 8],
      [7, 7, 8],
      [7, 7, 8],
    ]);
    expect(summary.choices.map(({ reason }) => reason)).toEqual(["stop", "stop", "stop"]);
    expect([constraint, ...constraint.forks].map(({ isDisposed }) => isDisposed)).toEqual([true, true, true]);
    allBack(serving);
  });

  it("lets nobody wait for a slow one", async () => {
    const serving = new SimulatedEngine();
    let answer!: () => void;
    const constraint = new Dictation([5], () => new Promise((resolve) => (answer = resolve)));
    const slow = serving.complete({ prompt: prompt(1), constraint });
    const quick = await serving.read(serving.complete({ prompt: prompt(...PROMPT), maxTokens: 20, ...OPEN_END }));
    expect(quick.summary.generatedTokens).toBe(20);
    expect(constraint.accepted).toEqual([]);
    answer();
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(constraint.accepted).toEqual([5]);
    slow.cancel();
    expect(constraint.isDisposed).toBe(true);
    allBack(serving);
  });

  it.each([
    ["rejects", () => Promise.reject(new Error("no such word")), /no such word/],
    ["never answers", () => new Promise<void>(() => {}), /within 30 ms/],
  ])("fails a request alone whose constraint %s", async (_, answer, message) => {
    const serving = new SimulatedEngine({ constraintTimeoutMs: 30 });
    const failing = serving.complete({
      prompt: prompt(1),
      constraint: new Dictation([1, 2], (position) => (position === 1 ? answer() : Promise.resolve())),
    });
    const other = serving.read(serving.complete({ prompt: prompt(...PROMPT), maxTokens: 20, ...OPEN_END }));
    await expect(serving.read(failing)).rejects.toThrow(message);
    expect((await other).tokens[0]).toEqual(expectedTokens(PROMPT, 20));
    allBack(serving);
  });

  it("fails a request alone whose mask has the wrong size", async () => {
    const serving = new SimulatedEngine();
    const constraint: TokenConstraint = {
      allowed: () => Promise.resolve(new Uint32Array(9)),
      accept: () => {},
      fork: () => constraint,
      [Symbol.dispose]: () => {},
    };
    await expect(serving.complete({ prompt: prompt(1), constraint }).summary).rejects.toMatchObject({
      code: "GRAMMAR_INVALID",
    });
    allBack(serving);
  });
});

describe("a cache that grows", () => {
  it("holds what one request needs, and more only when more come", async () => {
    const serving = new SimulatedEngine({ firstBlocks: 0, blocks: 60 });
    const read = (count: number, tokens: number): Promise<unknown[]> =>
      Promise.all(
        Array.from({ length: count }, async (_, index) => {
          const own = [index % 7, ...PROMPT];
          const answer = await serving.read(
            serving.complete({ prompt: prompt(...own), maxTokens: tokens, ...OPEN_END }),
          );
          expect(answer.tokens[0]).toEqual(expectedTokens(own, tokens));
        }),
      );
    await read(1, 11);
    expect(serving.pool.blocks).toBe(5);
    await read(1, 12);
    expect(serving.pool.blocks).toBe(8);
    await read(3, 12);
    expect(serving.pool.blocks).toBe(3 * 6 + 2);
    await read(30, 30);
    expect(serving.pool.blocks).toBe(60);
    allBack(serving);
  });

  it("keeps what is cached: the next turn of a conversation computes only what is new", async () => {
    const serving = new SimulatedEngine({ firstBlocks: 0, blocks: 60 });
    await serving.read(serving.complete({ prompt: prompt(...PROMPT), maxTokens: 8, ...OPEN_END }));
    expect(serving.pool.blocks).toBe(4);
    const conversation = [...PROMPT, ...expectedTokens(PROMPT, 8), 1, 2];
    const next = serving.complete({ prompt: prompt(...conversation), maxTokens: 40, ...OPEN_END });
    expect((await serving.read(next)).tokens[0]).toEqual(expectedTokens(conversation, 40));
    expect((await next.summary).cachedTokens).toBe(12);
    expect(serving.pool.blocks).toBe(15);
    allBack(serving);
  });

  it.each([
    { title: "keeps what is running", maxCacheBlocks: Number.POSITIVE_INFINITY, preemptions: 0 },
    { title: "begins running sequences again if two caches do not fit", maxCacheBlocks: 40, preemptions: 1 },
  ])("$title, and their text is the same", async ({ maxCacheBlocks, preemptions }) => {
    const serving = new SimulatedEngine({ firstBlocks: 0, blocks: 60 });
    serving.device.maxCacheBlocks = maxCacheBlocks;
    const first = serving.read(serving.complete({ prompt: prompt(...PROMPT), maxTokens: 30, ...OPEN_END }));
    await launches(serving, 10);
    const others = [1, 2, 3].map((token) =>
      serving.read(serving.complete({ prompt: prompt(token), maxTokens: 30, ...OPEN_END })),
    );
    expect((await first).tokens[0]).toEqual(expectedTokens(PROMPT, 30));
    expect((await first).summary.preemptions).toBe(preemptions);
    for (const [index, other] of others.entries())
      expect((await other).tokens[0]).toEqual(expectedTokens([index + 1], 30));
    allBack(serving);
  });

  it("stays as it is if there is no memory for more, and those that wait take turns", async () => {
    const serving = new SimulatedEngine({ firstBlocks: 0, blocks: 60 });
    await serving.read(serving.complete({ prompt: prompt(...PROMPT), maxTokens: 12, ...OPEN_END }));
    serving.device.maxCacheBlocks = serving.pool.blocks;
    const answers = await Promise.all(
      Array.from({ length: 10 }, () =>
        serving.read(serving.complete({ prompt: prompt(...PROMPT), maxTokens: 12, ...OPEN_END })),
      ),
    );
    for (const { tokens } of answers) expect(tokens[0]).toEqual(expectedTokens(PROMPT, 12));
    expect(serving.pool.blocks).toBe(5);
    allBack(serving);
  });

  it("fails those who can never run for want of memory, and no others", async () => {
    const serving = new SimulatedEngine({ firstBlocks: 0, blocks: 60 });
    serving.device.maxCacheBlocks = 6;
    const large = serving.complete({ prompt: prompt(...PROMPT), maxTokens: 50, ...OPEN_END });
    await expect(large.summary).rejects.toMatchObject({ code: "BACKEND_MEMORY" });
    const small = await serving.read(serving.complete({ prompt: prompt(...PROMPT), maxTokens: 12, ...OPEN_END }));
    expect(small.tokens[0]).toEqual(expectedTokens(PROMPT, 12));
    allBack(serving);
  });
});
