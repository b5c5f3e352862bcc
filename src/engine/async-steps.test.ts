// The loop over a simulated device that takes steps ahead: texts are the same as one step after the other, whatever ends
// meanwhile, and steps that need a token wait for it.

import { describe, expect, it } from "vitest";
import type { StepInput } from "../backends/contract.js";
import { BackendError } from "../errors.js";
import type { CompletionRequest, TokenConstraint } from "./serving.js";
import { expectedTokens, VOCABULARY } from "./testing/simulated-device.js";
import { END_TOKEN, SimulatedEngine, textOf } from "./testing/simulated-engine.js";

const PROMPT = [3, 1, 4, 1, 5, 9, 2, 6];
const OPEN_END = { ignoreEndOfGeneration: true } as const;
const RANDOM = { temperature: 3, topK: 0, topP: 1, minP: 0 } as const;

function prompt(...tokens: number[]): Int32Array {
  return Int32Array.from(tokens);
}

async function allBack({ pool, states, loop, device }: SimulatedEngine): Promise<void> {
  // A step that was queued for a text that has ended meanwhile still ends.
  while (device.running > 0) await new Promise((resolve) => setImmediate(resolve));
  expect(pool.availableBlocks).toBe(pool.blocks);
  expect(states?.availableBlocks).toBe(states?.blocks);
  expect(loop.statistics()).toMatchObject({ running: 0, queued: 0 });
}

function asyncSteps({ device }: SimulatedEngine): number {
  return device.steps.filter(({ previousOutputs }) => previousOutputs !== undefined).length;
}

/** Each of forty requests at once, some with the same beginning, gets the text that it would have alone. */
async function expectTextsOfMany(serving: SimulatedEngine): Promise<void> {
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
}

/** Allows every token, after a while. */
class Anything implements TokenConstraint {
  async allowed(): Promise<Uint32Array | undefined> {
    return new Uint32Array(Math.ceil(VOCABULARY / 32)).fill(0xff_ff_ff_ff);
  }

  accept(): void {}

  fork(): TokenConstraint {
    return this;
  }

  [Symbol.dispose](): void {}
}

describe("EngineLoop on a device that takes steps ahead", () => {
  it("queues each step before the previous one has ended, and no more than the text has tokens", async () => {
    const serving = new SimulatedEngine({ asyncScheduling: true });
    const running: number[] = [];
    serving.device.onLaunch = () => running.push(serving.device.running);
    const { tokens } = await serving.read(serving.complete({ prompt: prompt(...PROMPT), maxTokens: 12, ...OPEN_END }));
    expect(tokens[0]).toEqual(expectedTokens(PROMPT, 12));
    // The prompt, the first token after it, and then one step behind another.
    expect(running).toEqual([0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]);
    await allBack(serving);
  });

  it.each([
    [true, 64],
    [false, 64],
    [true, 17],
    [false, 17],
  ])(
    "gives each of many the text it would have alone (prefixes shared: %s, %i blocks)",
    async (sharesPrefixes, blocks) => {
      const serving = new SimulatedEngine({ asyncScheduling: true, sharesPrefixes, blocks });
      await expectTextsOfMany(serving);
      if (blocks === 17) expect(serving.loop.statistics().preemptions).toBeGreaterThan(0);
      expect(asyncSteps(serving)).toBeGreaterThan(0);
      await allBack(serving);
    },
  );

  it.each<[string, Partial<CompletionRequest>, boolean]>([
    ["greedy", { sampling: { temperature: 0 } }, true],
    ["random", { sampling: { ...RANDOM, seed: 5 } }, true],
    ["with log-probabilities", { sampling: { ...RANDOM, seed: 6 }, topLogprobs: 2 }, true],
    ["with a bias", { sampling: { ...RANDOM, seed: 7, logitBias: new Map([[4, 2]]) } }, true],
    ["of several choices", { sampling: { ...RANDOM, seed: 8 }, choices: 3 }, true],
    ["with penalties, which depend on each token", { sampling: { ...RANDOM, seed: 9, presencePenalty: 1 } }, false],
    ["with a constraint, which depends on each token", { constraint: new Anything() }, false],
  ])("gives the same text as one step after the other: %s", async (_name, request, asyncScheduling) => {
    const texts: (readonly string[])[] = [];
    for (const isAsync of [false, true]) {
      const serving = new SimulatedEngine({ asyncScheduling: isAsync });
      const answer = await serving.read(
        serving.complete({ prompt: prompt(...PROMPT), maxTokens: 16, ...OPEN_END, ...request }),
      );
      texts.push(answer.texts);
      expect(asyncSteps(serving) > 0).toBe(isAsync && asyncScheduling);
      await allBack(serving);
    }
    expect(texts[1]).toEqual(texts[0]);
    expect(texts[0][0]).toHaveLength(16);
  });

  it("drops what was computed after a stop string or an end-of-generation token", async () => {
    const serving = new SimulatedEngine({ asyncScheduling: true });
    const whole = textOf(expectedTokens(PROMPT, 20));
    const stop = whole.slice(6, 9);
    const stopped = serving.complete({ prompt: prompt(...PROMPT), maxTokens: 20, stop: [stop], ...OPEN_END });
    const beside = serving.complete({ prompt: prompt(7, 7), maxTokens: 30, ...OPEN_END });
    const [{ texts, summary }, other] = await Promise.all([serving.read(stopped), serving.read(beside)]);
    expect(texts[0]).toBe(whole.slice(0, whole.indexOf(stop)));
    expect(summary.choices[0]).toMatchObject({ reason: "stop", stop });
    expect(other.tokens[0]).toEqual(expectedTokens([7, 7], 30));
    // A token that the model predicts in the middle of a text ends it.
    const predicted = expectedTokens(PROMPT, 20);
    const sampling = { temperature: 0, logitBias: new Map([[END_TOKEN, 2]]) };
    const biased = await serving.read(serving.complete({ prompt: prompt(...PROMPT), maxTokens: 60, sampling }));
    expect(biased.summary.choices[0].reason).toBe("stop");
    expect(predicted.slice(0, biased.tokens[0].length)).toEqual(biased.tokens[0]);
    await allBack(serving);
  });

  it("lets a newcomer begin after the step that is queued", async () => {
    const serving = new SimulatedEngine({ asyncScheduling: true });
    const first = serving.complete({ prompt: prompt(...PROMPT), maxTokens: 30, ...OPEN_END });
    await new Promise<void>((resolve) => {
      serving.device.onLaunch = () => serving.device.steps.length === 6 && resolve();
    });
    const second = serving.complete({ prompt: prompt(8, 8, 8), maxTokens: 5, ...OPEN_END });
    expect((await serving.read(second)).tokens[0]).toEqual(expectedTokens([8, 8, 8], 5));
    expect((await serving.read(first)).tokens[0]).toEqual(expectedTokens(PROMPT, 30));
    const began = serving.device.steps.findIndex(({ tokens }) => tokens.length === 4);
    expect(began).toBeLessThanOrEqual(8);
    await allBack(serving);
  });

  it("waits for tokens while another caller's step, such as a warm-up's, is in flight", async () => {
    const serving = new SimulatedEngine({ asyncScheduling: true });
    const { device, pool } = serving;
    // As a plan has it.
    Object.defineProperty(device, "asyncScheduling", { get: () => device.running < 2 });
    const blocks = pool.allocate(1) ?? [];
    const other: StepInput = {
      tokens: Int32Array.of(9),
      positions: Int32Array.of(0),
      sequenceOffsets: Int32Array.of(0, 1),
      blockTables: [Int32Array.from(blocks)],
      outputs: [{ row: 0, want: { kind: "candidates", count: 1 } }],
    };
    device.onLaunch = () => {
      if (device.steps.length === 6) queueMicrotask(() => void device.step(other, device.kvCache, {}));
    };
    const { tokens } = await serving.read(serving.complete({ prompt: prompt(...PROMPT), maxTokens: 16, ...OPEN_END }));
    expect(tokens[0]).toEqual(expectedTokens(PROMPT, 16));
    expect(device.steps[6]).toBe(other);
    expect(device.steps[7].previousOutputs).toBeUndefined();
    expect(device.steps.at(-1)?.previousOutputs).toBeDefined();
    pool.release(blocks);
    await allBack(serving);
  });

  it("cancels at any time, and nothing is left", async () => {
    for (let steps = 1; steps < 9; steps++) {
      const serving = new SimulatedEngine({ asyncScheduling: true });
      const cancelled = serving.complete({ prompt: prompt(...PROMPT), ...OPEN_END });
      const beside = serving.complete({ prompt: prompt(6, 6), maxTokens: 25, ...OPEN_END });
      serving.device.onLaunch = () => {
        if (serving.device.steps.length === steps) cancelled.cancel();
      };
      expect((await serving.read(beside)).tokens[0]).toEqual(expectedTokens([6, 6], 25));
      expect((await cancelled.summary).choices[0].reason).toBe("abort");
      await allBack(serving);
    }
  });

  it("fails the requests of a step that throws, also those queued behind it, and no others", async () => {
    const serving = new SimulatedEngine({ asyncScheduling: true, limits: { sequences: 2 } });
    const jobs = [1, 2, 3, 4].map((token) => serving.complete({ prompt: prompt(token), maxTokens: 9, ...OPEN_END }));
    serving.device.onLaunch = () => {
      if (serving.device.steps.length === 5) serving.device.failure = new BackendError("BACKEND_MEMORY", "no room");
    };
    const results = await Promise.allSettled(jobs.map((job) => serving.read(job)));
    expect(results.map(({ status }) => status)).toEqual(["rejected", "rejected", "fulfilled", "fulfilled"]);
    await expect(jobs[0].summary).rejects.toMatchObject({ code: "BACKEND_MEMORY" });
    await allBack(serving);
  });

  it("fails a row that is not finite alone, and drops what was computed after it", async () => {
    const serving = new SimulatedEngine({ asyncScheduling: true });
    const [second] = expectedTokens([16], 1);
    serving.device.poison = second;
    const jobs = [16, 20].map((token) => serving.complete({ prompt: prompt(token), maxTokens: 8, ...OPEN_END }));
    const results = await Promise.allSettled(jobs.map((job) => serving.read(job)));
    expect(results[0]).toMatchObject({ status: "rejected", reason: { code: "BACKEND_NOT_FINITE" } });
    expect(expectedTokens([20], 8)).not.toContain(second);
    expect(results[1]).toMatchObject({ status: "fulfilled", value: { tokens: [expectedTokens([20], 8)] } });
    await allBack(serving);
  });

  it("ends both steps when it is disposed", async () => {
    const serving = new SimulatedEngine({ asyncScheduling: true });
    const job = serving.complete({ prompt: prompt(...PROMPT), ...OPEN_END });
    await new Promise<void>((resolve) => {
      serving.device.onLaunch = () => serving.device.steps.length === 5 && resolve();
    });
    await serving.loop[Symbol.asyncDispose]();
    await expect(job.summary).rejects.toMatchObject({ code: "DISPOSED" });
    expect(serving.device.kvCache.disposed).toBe(true);
    await allBack(serving);
  });
});

describe("EngineLoop on a device that takes steps ahead, with recurrent states", () => {
  it.each([
    [true, 200],
    [true, 60],
    [true, 9],
    [true, 3],
    [false, 200],
    [false, 8],
  ])(
    "gives each of many the text it would have alone (prefixes shared: %s, %i slots)",
    async (sharesPrefixes, slots) => {
      const serving = new SimulatedEngine({ asyncScheduling: true, sharesPrefixes, stateSlots: slots, blocks: 40 });
      await expectTextsOfMany(serving);
      if (slots !== 3) expect(asyncSteps(serving)).toBeGreaterThan(0);
      await allBack(serving);
    },
  );

  it("takes turns with two slots while one sequence decodes, and needs no other", async () => {
    const serving = new SimulatedEngine({ asyncScheduling: true, stateSlots: 60 });
    const job = serving.complete({ prompt: prompt(...PROMPT), maxTokens: 20, ...OPEN_END });
    await serving.read(job);
    const decoding = serving.device.steps.slice(3);
    expect(decoding.every(({ previousOutputs }) => previousOutputs !== undefined)).toBe(true);
    for (const { stateReads, stateWrites } of decoding) expect(stateReads?.[0]).not.toBe(stateWrites?.[0]);
    expect(new Set(decoding.flatMap(({ stateWrites }) => [...(stateWrites ?? [])])).size).toBe(2);
  });

  it.each(["the end of the text", "a stop string", "cancelling"])(
    "keeps the states after an answer for the request that follows it: %s",
    async (ending) => {
      const sampling = { temperature: 0, logitBias: new Map([[END_TOKEN, 2]]) };
      const text = textOf(expectedTokens(PROMPT, 20));
      const first =
        ending === "the end of the text"
          ? { sampling, maxTokens: 50 }
          : ending === "a stop string"
            ? { stop: [text.slice(8, 11)], maxTokens: 20, ...OPEN_END }
            : { maxTokens: 40, ...OPEN_END };
      const cached: number[] = [];
      for (const asyncScheduling of [false, true]) {
        const serving = new SimulatedEngine({ asyncScheduling, stateSlots: 60 });
        const job = serving.complete({ prompt: prompt(...PROMPT), ...first });
        serving.device.onLaunch = () => {
          if (ending === "cancelling" && serving.device.steps.length === 9) job.cancel();
        };
        const { tokens } = await serving.read(job);
        expect(asyncSteps(serving) > 0).toBe(asyncScheduling);
        const next = [...PROMPT, ...tokens[0], 5, 6];
        const answer = await serving.read(serving.complete({ prompt: prompt(...next), maxTokens: 6, ...OPEN_END }));
        expect(answer.tokens[0]).toEqual(expectedTokens(next, 6));
        // All of the answer, but perhaps its last token, which no step has read.
        expect(answer.summary.cachedTokens).toBeGreaterThanOrEqual(next.length - 4);
        cached.push(answer.summary.cachedTokens);
        await allBack(serving);
      }
      if (ending !== "cancelling") expect(cached[1]).toBe(cached[0]);
    },
  );

  it("fails the requests of a step that throws, and no states are left behind", async () => {
    for (let steps = 2; steps < 9; steps++) {
      const serving = new SimulatedEngine({ asyncScheduling: true, stateSlots: 60, limits: { sequences: 2 } });
      const jobs = [1, 2, 3].map((token) => serving.complete({ prompt: prompt(token), maxTokens: 9, ...OPEN_END }));
      serving.device.onLaunch = () => {
        if (serving.device.steps.length === steps)
          serving.device.failure = new BackendError("BACKEND_MEMORY", "no room");
      };
      const results = await Promise.allSettled(jobs.map((job) => serving.read(job)));
      expect(results.map(({ status }) => status)).toContain("rejected");
      expect(results[2].status).toBe("fulfilled");
      await allBack(serving);
    }
  });
});

describe("an engine that ends", () => {
  it("does so however soon after a request that failed", async () => {
    for (let turns = 0; turns < 12; turns++) {
      const serving = new SimulatedEngine({ asyncScheduling: true });
      serving.device.poison = 3;
      const ended = serving.complete({ prompt: prompt(1, 2, 3), maxTokens: 4 }).summary.then(
        () => "answered",
        () => "failed",
      );
      expect(await ended).toBe("failed");
      for (let turn = 0; turn < turns; turn++) await undefined;
      await serving.loop[Symbol.asyncDispose]();
    }
  });
});
