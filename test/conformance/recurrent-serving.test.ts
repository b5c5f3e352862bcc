// The operations with recurrent states against `reference`: convolution, gated delta net and the scan of Mamba-2, over
// steps as a server makes them. A backend that has no kernel for one skips with its own reason.

import { expect, it, type TestContext } from "vitest";
import { type Backend, type KvCacheOptions, type StepInput } from "../../src/backends/contract.js";
import { kvShapeOf } from "../../src/graph/program.js";
import { hiddenOf, normalisedError, runSteps, unsupportedReason, withProgram } from "./harness.js";
import {
  chunkedSteps,
  convCase,
  type ConvShape,
  deltaNetCase,
  type DeltaNetShape,
  type RecurrentCase,
  previousRowCase,
  recurrentStep,
  SERVING_STEPS,
  ssmScanCase,
  type SsmScanShape,
} from "./recurrent-serving.js";
import { referenceSteps } from "./reference-results.js";
import { BEST_SUBJECT, describeCpu, describeSubjects, type Subject } from "./subjects.js";

/** Of f32 arithmetic in another order, through many tokens. */
const TOLERANCE = 1e-10;
/** A few more than chunks of 8, 16, 32 or 48 tokens. */
const PROMPT_TOKENS = 53;

const CONVOLUTIONS: readonly ConvShape[] = [
  { columns: 384, taps: 4, activation: "silu" },
  { columns: 200, taps: 4, bias: true, activation: "silu" },
  { columns: 67, taps: 3 },
  { columns: 5, taps: 2, bias: true },
  { columns: 130, taps: 7, activation: "silu" },
];

const DELTA_NETS: readonly DeltaNetShape[] = [
  { keyHeads: 2, valueHeads: 4, headWidth: 128, keyHeadOrder: "cyclic" },
  { keyHeads: 2, valueHeads: 4, headWidth: 64, keyHeadOrder: "grouped" },
  { keyHeads: 3, valueHeads: 3, headWidth: 16, keyHeadOrder: "cyclic" },
  { keyHeads: 2, valueHeads: 6, headWidth: 16, keyHeadOrder: "grouped" },
  { keyHeads: 1, valueHeads: 2, headWidth: 52, keyHeadOrder: "grouped" },
  { keyHeads: 1, valueHeads: 1, headWidth: 7, keyHeadOrder: "cyclic" },
];

const SCANS: readonly SsmScanShape[] = [
  { heads: 4, headWidth: 64, groups: 1, stateWidth: 128 },
  { heads: 6, headWidth: 32, groups: 2, stateWidth: 64 },
  { heads: 2, headWidth: 128, groups: 2, stateWidth: 16 },
  { heads: 3, headWidth: 20, groups: 3, stateWidth: 24 },
  { heads: 1, headWidth: 3, groups: 1, stateWidth: 5 },
];

interface TitledCase {
  readonly title: string;
  readonly make: () => RecurrentCase;
}

const text = (shape: object): string =>
  Object.entries(shape)
    .map(([name, value]) => `${name} ${String(value)}`)
    .join(", ");

const CASES: readonly TitledCase[] = [
  ...CONVOLUTIONS.map((shape) => ({ title: `convolution: ${text(shape)}`, make: () => convCase(shape) })),
  ...DELTA_NETS.map((shape) => ({ title: `delta net: ${text(shape)}`, make: () => deltaNetCase(shape) })),
  ...SCANS.map((shape) => ({ title: `scan: ${text(shape)}`, make: () => ssmScanCase(shape) })),
  { title: "the row before", make: () => previousRowCase(37, true) },
];
/** One of each operation with odd sizes, and one with the sizes of real models. */
const FEW = [1, 2, 5, 9, 11, 14, 16].map((index) => CASES[index]);

function skipUnsupported(backend: Backend, { program }: RecurrentCase, skip: TestContext["skip"]): void {
  const reason = unsupportedReason(backend, program);
  if (reason !== undefined) skip(reason);
}

async function hiddenRows(
  backend: Backend,
  { program, outWidth }: RecurrentCase,
  steps: readonly StepInput[],
): Promise<Float32Array[]> {
  return (await runSteps(backend, program, steps)).map((rows) => hiddenOf(rows, outWidth));
}

function joined(parts: readonly Float32Array[]): Float32Array {
  return Float32Array.from(parts.flatMap((part) => [...part]));
}

async function expectLikeReference(
  backend: Backend,
  wanted: RecurrentCase,
  steps: readonly StepInput[],
): Promise<void> {
  const expected = await referenceSteps(wanted.program, steps);
  for (const [index, found] of (await hiddenRows(backend, wanted, steps)).entries()) {
    const error = normalisedError(found, hiddenOf(expected[index], wanted.outWidth));
    expect(error, `step ${index}`).toBeLessThan(TOLERANCE);
  }
}

const casesOf = (subject: Subject): readonly TitledCase[] => subject.inTurn(CASES, FEW);

describeSubjects((subject) => {
  it.for(casesOf(subject))("computes many sequences with their slots, $title", async ({ make }, { skip }) => {
    await using backend = subject.create();
    skipUnsupported(backend, make(), skip);
    await expectLikeReference(backend, make(), SERVING_STEPS);
  });

  it("gives all tokens of a step the row before it", async ({ skip }) => {
    await using backend = subject.create();
    const wanted = previousRowCase(37, false);
    skipUnsupported(backend, wanted, skip);
    await expectLikeReference(backend, wanted, SERVING_STEPS);
  });

  it.for(casesOf(subject))("computes a prompt at once as token by token, $title", async ({ make }, { skip }) => {
    await using backend = subject.create();
    skipUnsupported(backend, make(), skip);
    await expectLikeReference(backend, make(), chunkedSteps(PROMPT_TOKENS, [PROMPT_TOKENS]));
    await expectLikeReference(backend, make(), chunkedSteps(PROMPT_TOKENS, [1]));
    await expectLikeReference(backend, make(), chunkedSteps(PROMPT_TOKENS, [3, 17, 1, 8, 2]));
  });

  it.for(casesOf(subject))("gives the same bits in deterministic mode, $title", async ({ make }, { skip }) => {
    await using alone = subject.create({ deterministic: true, threads: 1 });
    skipUnsupported(alone, make(), skip);
    const expected = joined(await hiddenRows(alone, make(), chunkedSteps(PROMPT_TOKENS, [PROMPT_TOKENS])));
    const ways = [
      { sizes: [1], threads: 2 },
      { sizes: [8, 3, 1, 20], threads: 3 },
      { sizes: [2, 30], batchMates: 9, threads: 2 },
    ];
    for (const { sizes, batchMates, threads } of ways) {
      await using backend = subject.create({ deterministic: true, threads });
      const found = joined(await hiddenRows(backend, make(), chunkedSteps(PROMPT_TOKENS, sizes, batchMates)));
      expect(Buffer.from(found.buffer).equals(Buffer.from(expected.buffer)), `steps of ${sizes.join(", ")}`).toBe(true);
    }
    // One run of tokens, and the same with a state written in the middle.
    const cut = recurrentStep([{ first: 0, tokens: PROMPT_TOKENS, writes: { 12: 3, 29: 1, [PROMPT_TOKENS - 1]: 0 } }]);
    expect(joined(await hiddenRows(alone, make(), [cut]))).toEqual(expected);
  });

  it.for(subject.cases([CASES[1], CASES[6], CASES[12]], [CASES[1]]))(
    "keeps states when a cache grows, $title",
    async ({ make }, { skip }) => {
      await using backend = subject.create();
      const { program, outWidth } = make();
      skipUnsupported(backend, make(), skip);
      const steps = chunkedSteps(PROMPT_TOKENS, [30]);
      const expected = await referenceSteps(program, steps);
      await withProgram(backend, program, async (compiled, cache) => {
        if (cache === undefined) throw new Error("the case has a cache");
        await compiled.run(steps[0], cache);
        using grown = backend.createKvCache({ ...cache.options, stateSlots: 19 } satisfies KvCacheOptions);
        expect(grown.sizeBytes).toBeGreaterThan(cache.sizeBytes);
        grown.copyFrom(cache, 0);
        const found = await compiled.run(steps[1], grown);
        expect(normalisedError(hiddenOf(found, outWidth), hiddenOf(expected[1], outWidth))).toBeLessThan(TOLERANCE);
      });
    },
  );
});

describeCpu("a cache with recurrent states on the CPU", () => {
  it("counts the states in its size", async () => {
    await using backend = BEST_SUBJECT.create();
    const options = { ...kvShapeOf([], [64, 160]), blocks: 0, blockTokens: 16, type: "f16" } as const;
    expect(backend.kvCacheBytes({ ...options, stateSlots: 7 })).toBe(7 * (64 + 160) * 4);
    expect(backend.kvCacheBytes(options)).toBe(0);
  });
});
