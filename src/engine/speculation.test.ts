// Drafts over a simulated device: whatever is drafted, right, wrong or both, a request gets exactly what it would get
// without drafts, and every block is returned.

import { describe, expect, it, vi } from "vitest";
import type { BatchDrafter, TextDrafter } from "../speculation/drafter.js";
import type { DraftPolicy } from "../speculation/draft-costs.js";
import { Speculation } from "../speculation/speculation.js";
import type { CompletionRequest, TokenConstraint } from "./serving.js";
import { expectedTokens, VOCABULARY } from "./testing/simulated-device.js";
import { SimulatedEngine } from "./testing/simulated-engine.js";

const PROMPT = [3, 1, 4, 1, 5, 9, 2, 6];
const OPEN_END = { ignoreEndOfGeneration: true } as const;
/** Always drafts as much as it may. */
const EAGER: DraftPolicy = { measured: () => {}, drafted: () => {}, bestLength: (_acceptance, _count, most) => most };

/** Drafts the greedy continuation, with a wrong token now and then. */
class TruthfulDrafter implements TextDrafter {
  readonly firstAcceptance = [1];
  readonly #wrongEvery: number;
  readonly #length: number;
  #calls = 0;

  constructor(wrongEvery: number, length: number) {
    this.#wrongEvery = wrongEvery;
    this.#length = length;
  }

  draft(tokens: Int32Array, most: number) {
    const drafted = expectedTokens([...tokens], Math.min(most, this.#length));
    if (++this.#calls % this.#wrongEvery === 0 && drafted.length > 0) {
      const wrong = this.#calls % drafted.length;
      drafted[wrong] = (drafted[wrong] + 1) % (VOCABULARY - 1);
    }
    return drafted.length === 0 ? undefined : { tokens: Int32Array.from(drafted), confidence: 0 };
  }
}

/** Drafts the greedy continuation at some places of a text only. */
class SporadicDrafter implements TextDrafter {
  readonly firstAcceptance = [1];

  draft(tokens: Int32Array, most: number) {
    if (tokens.length % 9 > 3) return undefined;
    const drafted = expectedTokens([...tokens], Math.min(most, 4));
    if (tokens.length % 2 === 0 && drafted.length > 1) drafted[1] = (drafted[1] + 1) % (VOCABULARY - 1);
    return { tokens: Int32Array.from(drafted), confidence: 0 };
  }
}

function speculation({ wrongEvery = 3, length = 5 } = {}): Speculation {
  return new Speculation({ textDrafter: () => new TruthfulDrafter(wrongEvery, length), policy: EAGER });
}

function engineWith(drafts: Speculation | undefined, options: object = {}): SimulatedEngine {
  return new SimulatedEngine({
    limits: { stepOutputs: 64, stepTokens: 64 },
    ...options,
    ...(drafts === undefined ? {} : { speculation: drafts }),
  });
}

async function allBack({ pool, states, loop, device }: SimulatedEngine): Promise<void> {
  // A step that was queued for a text that has ended meanwhile still ends.
  while (device.running > 0) await new Promise((resolve) => setImmediate(resolve));
  expect(pool.availableBlocks).toBe(pool.blocks);
  expect(states?.availableBlocks).toBe(states?.blocks);
  expect(loop.statistics()).toMatchObject({ running: 0, queued: 0 });
}

interface DraftResult {
  readonly drafted: number;
  readonly accepted: number;
  /** Without and with drafts. */
  readonly steps: readonly [number, number];
  /** Of the steps with drafts. */
  readonly queuedEarly: number;
}

/** Requests with and without drafts must have equal results; returns what was drafted. */
async function sameWithDrafts(
  requests: readonly (() => Partial<CompletionRequest>)[],
  drafts = speculation(),
  options: object = {},
): Promise<DraftResult> {
  const [plain, drafting] = [engineWith(undefined, options), engineWith(drafts, options)];
  const results = [];
  for (const serving of [plain, drafting]) {
    const answers = await Promise.all(
      requests.map((request) =>
        serving.read(serving.complete({ prompt: Int32Array.from(PROMPT), maxTokens: 30, ...OPEN_END, ...request() })),
      ),
    );
    await allBack(serving);
    results.push(
      answers.map(({ texts, tokens, summary, deltas }) => ({
        texts,
        tokens,
        choices: summary.choices,
        generatedTokens: summary.generatedTokens,
        logprobs: deltas.flatMap(({ choice, logprobs }) => logprobs.map((logprob) => ({ choice, ...logprob }))),
      })),
    );
  }
  for (const answers of results) for (const answer of answers) answer.logprobs.sort((a, b) => a.choice - b.choice);
  expect(results[1]).toEqual(results[0]);
  return {
    drafted: drafts.draftedTokens,
    accepted: drafts.acceptedTokens,
    steps: [plain.device.steps.length, drafting.device.steps.length],
    queuedEarly: drafting.device.steps.filter(({ previousOutputs }) => previousOutputs !== undefined).length,
  };
}

describe("drafts", () => {
  it("give the greedy text in fewer steps", async () => {
    const { drafted, accepted, steps } = await sameWithDrafts([() => ({})]);
    expect(accepted).toBeGreaterThan(10);
    expect(accepted).toBeLessThan(drafted);
    expect(steps[1]).toBeLessThan(steps[0] / 2);
  });

  it.each([1, 2, 3, 7])(
    "give many requests together the texts they have without drafts (wrong each %i)",
    async (wrongEvery) => {
      const requests = Array.from({ length: 24 }, (_, index) => () => ({
        prompt: Int32Array.from([...PROMPT, index % 5, 7, index % 3].slice(0, 2 + (index % 9))),
        maxTokens: 1 + (index % 30),
      }));
      const { drafted } = await sameWithDrafts(requests, speculation({ wrongEvery }));
      expect(drafted).toBeGreaterThan(0);
    },
  );

  it.each([true, false])("survive preemption (prefixes shared: %s)", async (sharesPrefixes) => {
    const requests = Array.from({ length: 12 }, (_, index) => () => ({
      prompt: Int32Array.from([...PROMPT, index]),
      maxTokens: 35,
    }));
    const drafts = speculation();
    const serving = engineWith(drafts, { sharesPrefixes, blocks: 17 });
    const answers = await Promise.all(
      requests.map((request) => serving.read(serving.complete({ ...OPEN_END, ...request() }))),
    );
    for (const [index, { tokens }] of answers.entries())
      expect(tokens[0]).toEqual(expectedTokens([...PROMPT, index], 35));
    expect(serving.loop.statistics().preemptions).toBeGreaterThan(0);
    expect(drafts.acceptedTokens).toBeGreaterThan(0);
    await allBack(serving);
  });

  it.each([
    ["without states", { stateSlots: undefined }],
    ["with states", { stateSlots: 300 }],
    ["with few state slots", { stateSlots: 11 }],
    ["with few blocks", { blocks: 17, stateSlots: 40 }],
  ])("alternate with steps that are queued before the previous one has ended: %s", async (_name, sizes) => {
    const requests = Array.from({ length: 20 }, (_, index) => () => ({
      prompt: Int32Array.from([...PROMPT, index % 5, 7, index % 3].slice(0, 2 + (index % 9))),
      maxTokens: 5 + (index % 30),
      ...(index % 4 === 0 ? { sampling: { temperature: 1, topK: 4, seed: index }, topLogprobs: 1 } : {}),
      ...(index % 7 === 0 ? { ignoreEndOfGeneration: false } : {}),
    }));
    for (const group of [requests, requests.slice(5, 6), requests.slice(8, 10)]) {
      const drafts = new Speculation({ textDrafter: () => new SporadicDrafter(), policy: EAGER });
      const { drafted, accepted, queuedEarly } = await sameWithDrafts(group, drafts, {
        asyncScheduling: true,
        ...sizes,
      });
      expect(accepted).toBeGreaterThan(0);
      expect(accepted).toBeLessThan(drafted);
      if (group.length < 3 && sizes.stateSlots !== 11) expect(queuedEarly).toBeGreaterThan(0);
    }
  });

  it("count what the device waits for them, if it would not wait without them", async () => {
    const measured: [milliseconds: number, draftTokens: number][] = [];
    const policy: DraftPolicy = {
      ...EAGER,
      measured: (milliseconds, _sequences, draftTokens) => void measured.push([milliseconds, draftTokens]),
    };
    // The drafter takes its time, and the device has nothing to do meanwhile.
    const slow = new SporadicDrafter();
    const textDrafter = (): TextDrafter => ({
      firstAcceptance: [1],
      draft: (tokens, most) => {
        const endMs = performance.now() + 8;
        while (performance.now() < endMs);
        return slow.draft(tokens, most);
      },
    });
    for (const asyncScheduling of [false, true]) {
      measured.length = 0;
      const serving = engineWith(new Speculation({ textDrafter, policy }), { asyncScheduling });
      await serving.read(serving.complete({ prompt: Int32Array.from(PROMPT), maxTokens: 30, ...OPEN_END }));
      const drafted = measured.filter(([, draftTokens]) => draftTokens > 0).map(([milliseconds]) => milliseconds);
      expect(drafted.length).toBeGreaterThan(2);
      // The steps themselves take no time.
      if (asyncScheduling) expect(Math.min(...drafted)).toBeGreaterThan(7.9);
      else expect(Math.min(...drafted)).toBeLessThan(7.9);
    }
  });

  it("of a batch drafter do not count its time twice", async () => {
    const [steps, drafting]: [number[], number[]] = [[], []];
    const policy: DraftPolicy = {
      ...EAGER,
      measured: (milliseconds, _sequences, draftTokens) => void (draftTokens > 0 && steps.push(milliseconds)),
      drafted: (milliseconds) => void drafting.push(milliseconds),
    };
    const batchDrafter: BatchDrafter = {
      draft: async (requests) => {
        await new Promise((resolve) => setTimeout(resolve, 40));
        return requests.map(({ tokens, most }) => Int32Array.from(expectedTokens([...tokens], Math.min(most, 4))));
      },
      release: () => {},
      [Symbol.asyncDispose]: async () => {},
    };
    const serving = engineWith(new Speculation({ batchDrafter, policy }), { asyncScheduling: true });
    await serving.read(serving.complete({ prompt: Int32Array.from(PROMPT), maxTokens: 30, ...OPEN_END }));
    expect(steps.length).toBeGreaterThan(3);
    expect(Math.min(...drafting)).toBeGreaterThan(38);
    expect(Math.min(...steps)).toBeLessThan(38);
  });

  it("leave sampled text with penalties, bias, log-probabilities and choices as it is", async () => {
    const samplings: Partial<NonNullable<CompletionRequest["sampling"]>>[] = [
      { temperature: 0.3, topK: 5, seed: 1 },
      { temperature: 0.2, topK: 0, topP: 0.9, seed: 2 },
      { temperature: 0, repeatPenalty: 1.3, penaltyTokens: 4 },
      { temperature: 0.1, topK: 8, frequencyPenalty: 0.5, presencePenalty: 0.2, penaltyTokens: -1, seed: 4 },
      { temperature: 0, frequencyPenalty: -0.1, penaltyTokens: 20 },
      { temperature: 0.2, dryMultiplier: 0.8, dryAllowedLength: 1, dryPenaltyTokens: -1, topK: 6, seed: 5 },
      { temperature: 0.4, mirostat: 2, seed: 6 },
      { temperature: 0.3, xtcProbability: 0.5, xtcThreshold: 0.05, topK: 10, seed: 7 },
      { temperature: 0, logitBias: new Map([[2, 1.5]]) },
    ];
    const { accepted } = await sameWithDrafts(
      samplings.flatMap((sampling) => [
        () => ({ sampling, topLogprobs: 3 }),
        () => ({ sampling: { ...sampling, seed: 17 }, choices: 3 }),
        () => ({ sampling }),
      ]),
      speculation({ wrongEvery: 4, length: 3 }),
      { blocks: 512, limits: { stepOutputs: 64, stepTokens: 64, queued: 200 } },
    );
    expect(accepted).toBeGreaterThan(20);
  });

  it("stop at stop strings and at the end of the text as before", async () => {
    const whole = expectedTokens(PROMPT, 30)
      .map((token) => String.fromCodePoint(97 + token))
      .join("");
    const stops = Array.from({ length: 20 }, (_, start) => whole.slice(start, start + 1 + (start % 4)));
    await sameWithDrafts([
      ...stops.map((stop) => () => ({ stop: [stop] })),
      ...stops.map((stop, index) => () => ({ stop: [stop], maxTokens: index + 1 })),
      () => ({ ignoreEndOfGeneration: false, sampling: { temperature: 0, logitBias: new Map([[VOCABULARY - 1, 4]]) } }),
      () => ({ ignoreEndOfGeneration: false }),
    ]);
  });

  it("follow a constraint's masks, and the tokens that it forces", async () => {
    const forced = [5, 6, 7, 8, 9];
    const drafts = speculation({ wrongEvery: 2 });
    const { steps } = await sameWithDrafts([() => ({ constraint: new Cycle(forced) })], drafts);
    expect(steps[1]).toBeLessThan(steps[0] / 2);
    await sameWithDrafts([
      () => ({ constraint: new Cycle(forced, 2) }),
      () => ({ constraint: new Cycle(forced, 3), choices: 2 }),
    ]);
  });

  it("leave the distribution of sampled texts as it is", async () => {
    const sampling = {
      temperature: 8,
      topK: 0,
      topP: 1,
      minP: 0,
      logitBias: new Map([5, 6, 7].map((id) => [id, 500])),
    };
    const count = async (drafts: Speculation | undefined, firstSeed: number): Promise<Map<string, number>> => {
      const serving = engineWith(drafts);
      const counts = new Map<string, number>();
      for (let seed = firstSeed; seed < firstSeed + 2400; seed += 8) {
        const request = { prompt: Int32Array.from(PROMPT), maxTokens: 4, choices: 8, sampling: { ...sampling, seed } };
        const { texts } = await serving.read(serving.complete({ ...request, ...OPEN_END }));
        for (const text of texts) counts.set(text, (counts.get(text) ?? 0) + 1);
      }
      return counts;
    };
    const random: TextDrafter = {
      firstAcceptance: [1],
      draft: (tokens) => ({ tokens: Int32Array.from([5 + (tokens[tokens.length - 1] % 3), 6, 7]), confidence: 0 }),
    };
    const drafts = new Speculation({ textDrafter: () => random, policy: EAGER });
    const { statistic, degrees } = chiSquared(await count(undefined, 0), await count(drafts, 100_000));
    expect(drafts.acceptedTokens).toBeGreaterThan(500);
    expect(degrees).toBeGreaterThan(30);
    // Four standard deviations above the mean of the distribution.
    expect(statistic).toBeLessThan(degrees + 4 * Math.sqrt(2 * degrees));
  });

  it("are cancelled with their request", async () => {
    const serving = engineWith(speculation({ wrongEvery: 100 }));
    const job = serving.complete({ prompt: Int32Array.from(PROMPT), maxTokens: 40, ...OPEN_END });
    serving.device.onLaunch = () => {
      if (serving.device.steps.length === 3) job.cancel();
    };
    const { tokens, summary } = await serving.read(job);
    expect(summary.choices[0].reason).toBe("abort");
    expect(tokens[0]).toEqual(expectedTokens(PROMPT, 40).slice(0, tokens[0].length));
    await allBack(serving);
  });

  it("fail only if a row of the text is not finite, not for one of a rejected token", async () => {
    const poison = 38;
    const text = expectedTokens(PROMPT, 30);
    expect(text).not.toContain(poison);
    const bad: TextDrafter = {
      firstAcceptance: [1],
      draft: (tokens) => ({ tokens: Int32Array.from([...expectedTokens([...tokens], 1), poison, 3]), confidence: 0 }),
    };
    const serving = engineWith(new Speculation({ textDrafter: () => bad, policy: EAGER }));
    serving.device.poison = poison;
    const { tokens } = await serving.read(
      serving.complete({ prompt: Int32Array.from(PROMPT), maxTokens: 30, ...OPEN_END }),
    );
    expect(tokens[0]).toEqual(text);
    await allBack(serving);
  });

  it("of a batch drafter are not asked for while a step is queued early, nor is one queued while they pay", async () => {
    let pays = false;
    const policy: DraftPolicy = { ...EAGER, bestLength: (_acceptance, _count, most) => (pays ? Math.min(most, 3) : 0) };
    const asked: number[] = [];
    const drafter: BatchDrafter = {
      draft: (requests) => {
        for (const { sequence, tokens } of requests)
          asked.push((sequence as { length: number }).length - tokens.length);
        return Promise.resolve(requests.map(({ tokens, most }) => Int32Array.from(expectedTokens([...tokens], most))));
      },
      release: () => {},
      [Symbol.asyncDispose]: async () => {},
    };
    const serving = engineWith(new Speculation({ batchDrafter: drafter, policy }), { asyncScheduling: true });
    const kinds: string[] = [];
    serving.device.onLaunch = ({ tokens, previousOutputs }) => {
      kinds.push(previousOutputs !== undefined ? "early" : tokens.length > 1 ? "draft" : "plain");
      pays = serving.device.steps.length > 8 && serving.device.steps.length < 14;
    };
    const { tokens } = await serving.read(
      serving.complete({ prompt: Int32Array.from(PROMPT), maxTokens: 45, ...OPEN_END }),
    );
    expect(tokens[0]).toEqual(expectedTokens(PROMPT, 45));
    // Always for a text that ends with the last known token.
    expect(new Set(asked)).toEqual(new Set([0]));
    const drafts = kinds.slice(1).flatMap((kind, index) => (kind === "draft" ? [index + 1] : []));
    expect(drafts.length).toBeGreaterThan(3);
    expect(kinds.slice(drafts[0], drafts.at(-1)).every((kind) => kind === "draft")).toBe(true);
    expect(kinds.slice(2, 8).every((kind) => kind === "early")).toBe(true);
    expect(kinds.at(-1)).toBe("early");
    await allBack(serving);
  });

  it.each([false, true])(
    "of a batch drafter that were wrong are tried again after a while (steps queued early: %s)",
    async (asyncScheduling) => {
      const pays = (acceptance: number): boolean => acceptance > 0.62;
      const policy: DraftPolicy = {
        ...EAGER,
        bestLength: (acceptance, _count, most) => (pays(acceptance) ? Math.min(most, 2) : 0),
      };
      let asked = 0;
      const wrong: BatchDrafter = {
        draft: (requests) => {
          asked += requests.length;
          const next = (tokens: Int32Array): number => expectedTokens([...tokens], 1)[0];
          return Promise.resolve(requests.map(({ tokens }) => Int32Array.of((next(tokens) + 1) % (VOCABULARY - 1))));
        },
        release: () => {},
        [Symbol.asyncDispose]: async () => {},
      };
      const serving = engineWith(new Speculation({ batchDrafter: wrong, policy }), { asyncScheduling });
      const { tokens } = await serving.read(
        serving.complete({ prompt: Int32Array.from(PROMPT), maxTokens: 45, ...OPEN_END }),
      );
      expect(tokens[0]).toEqual(expectedTokens(PROMPT, 45));
      expect(asked).toBe(2);
      await allBack(serving);
    },
  );

  it("go on without a batch drafter that fails, and say so once", async () => {
    const warnings: unknown[] = [];
    const heard = vi.spyOn(process, "emitWarning").mockImplementation((...warning) => void warnings.push(warning));
    const disposed = vi.fn<() => Promise<void>>(async () => {});
    const failing: BatchDrafter = {
      draft: async () => {
        throw new Error("out of memory");
      },
      release: () => {},
      [Symbol.asyncDispose]: disposed,
    };
    const serving = engineWith(new Speculation({ batchDrafter: failing, policy: EAGER }));
    const request = { prompt: Int32Array.from(PROMPT), maxTokens: 20, ...OPEN_END };
    const { tokens } = await serving.read(serving.complete(request));
    heard.mockRestore();
    expect(tokens[0]).toEqual(expectedTokens(PROMPT, 20));
    expect(warnings).toEqual([
      [
        expect.stringMatching(/draft model failed .* out of memory/),
        expect.objectContaining({ code: "ROCMFORGE_DRAFTS" }),
      ],
    ]);
    expect(disposed).toHaveBeenCalledTimes(1);
    await allBack(serving);
  });

  it("ask the batch drafter for nothing if a request fails before it drafts", async () => {
    const asked: object[] = [];
    const drafter: BatchDrafter = {
      draft: (requests) => {
        asked.push(...requests.map(({ sequence }) => sequence));
        return Promise.resolve(requests.map(() => new Int32Array()));
      },
      release: () => {},
      [Symbol.asyncDispose]: async () => {},
    };
    const drafts = new Speculation({ batchDrafter: drafter, policy: EAGER });
    const sequence = {};
    drafts.wait({ sequence, tokens: Int32Array.of(1), most: 3, use: () => {} });
    drafts.wait({ sequence: {}, tokens: Int32Array.of(2), most: 3, use: () => {} });
    drafts.release(sequence);
    await drafts.draftWaiting(new AbortController().signal);
    expect(asked).toHaveLength(1);
    expect(asked).not.toContain(sequence);
  });

  it("commit only accepted tokens to the prefix cache", async () => {
    const serving = engineWith(speculation({ wrongEvery: 1 }));
    const request = { prompt: Int32Array.from(PROMPT), maxTokens: 30, ...OPEN_END };
    const first = await serving.read(serving.complete(request));
    const longer = [...PROMPT, ...first.tokens[0].slice(0, 24)];
    const second = await serving.read(serving.complete({ ...request, prompt: Int32Array.from(longer), maxTokens: 10 }));
    expect(second.summary.cachedTokens).toBe(28);
    expect(second.tokens[0]).toEqual(expectedTokens(longer, 10));
  });

  it("are counted in the summary and in the engine's statistics", async () => {
    const drafts = speculation();
    const serving = engineWith(drafts);
    const { summary } = await serving.read(
      serving.complete({ prompt: Int32Array.from(PROMPT), maxTokens: 30, ...OPEN_END }),
    );
    const { draftedTokens, acceptedTokens } = serving.loop.statistics();
    expect(summary).toMatchObject({ draftedTokens, acceptedTokens });
    expect(summary.acceptedTokens).toBeGreaterThan(0);
  });
});

/** Allows a cycle of tokens, with `choices` further tokens at each place. */
class Cycle implements TokenConstraint {
  readonly #tokens: readonly number[];
  readonly #choices: number;
  #position = 0;

  constructor(tokens: readonly number[], choices = 0, position = 0) {
    this.#tokens = tokens;
    this.#choices = choices;
    this.#position = position;
  }

  allowed(): Promise<Uint32Array> {
    return Promise.resolve(this.#mask(this.#position));
  }

  allowedAlong(draft: readonly number[], most: number) {
    const tokens: number[] = [];
    const masks = [this.#mask(this.#position)];
    while (tokens.length < most) {
      const mask = masks[masks.length - 1];
      const allowed = Array.from({ length: VOCABULARY }, (_, token) => token).filter(
        (token) => ((mask[token >> 5] >>> (token & 31)) & 1) === 1,
      );
      const drafted = draft[tokens.length];
      const token = allowed.length === 1 ? allowed[0] : allowed.includes(drafted) ? drafted : undefined;
      if (token === undefined) break;
      tokens.push(token);
      masks.push(this.#mask(this.#position + tokens.length));
    }
    return Promise.resolve({ tokens, masks });
  }

  accept(): void {
    this.#position++;
  }

  fork(): Cycle {
    return new Cycle(this.#tokens, this.#choices, this.#position);
  }

  [Symbol.dispose](): void {}

  #mask(position: number): Uint32Array {
    const mask = new Uint32Array(2);
    for (let choice = 0; choice <= this.#choices; choice++) {
      const token = (this.#tokens[position % this.#tokens.length] + choice * 7) % (VOCABULARY - 1);
      mask[token >> 5] |= 1 << (token & 31);
    }
    return mask;
  }
}

/** Compares two samples of the same size; rare classes count together. */
function chiSquared(left: Map<string, number>, right: Map<string, number>): { statistic: number; degrees: number } {
  let [statistic, classes] = [0, 0];
  const rest = [0, 0];
  const add = (one: number, other: number): void => {
    if (one + other === 0) return;
    statistic += (one - other) ** 2 / (one + other);
    classes++;
  };
  for (const text of new Set([...left.keys(), ...right.keys()])) {
    const [one, other] = [left.get(text) ?? 0, right.get(text) ?? 0];
    if (one + other >= 10) add(one, other);
    else {
      rest[0] += one;
      rest[1] += other;
    }
  }
  add(rest[0], rest[1]);
  return { statistic, degrees: classes - 1 };
}
