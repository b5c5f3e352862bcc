// Whole models on the CPU backend and on the emulated GPU against llama.cpp. "exact" is f32 throughout; "asComputed" is llama.cpp with its own
// 8-bit activations, whose drift from "exact" is the measure of ours.

import { existsSync, readFileSync } from "node:fs";
import { expect, it } from "vitest";
import type { Backend } from "../../../src/backends/contract.js";
import { Model } from "../../../src/model/model.js";
import { describeEmulator } from "../../gpu/emulator/build.js";
import { openPretended } from "../../gpu/pretended-device.js";
import { FULL_RUN } from "../../support/full-run.js";
import { logProbabilities } from "../models/log-probabilities.js";
import { BEST_SUBJECT, describeCpu, describeSubjects } from "../subjects.js";
import { readPacked } from "../../support/packed-json.js";

const MEAN_TOLERANCE = 0.015;
const DRIFT_RATIO = 1.25;
const DRIFT_FLOOR = 0.003;
/** What llama.cpp gives for the whole held-out text in windows of 512 tokens. */
const PERPLEXITIES = [
  ["fable-10m-Q4_K_M", 24.737],
  ["fable-10m-Q8_0", 24.495],
] as const;
const PERPLEXITY_TOLERANCE = 0.003;

interface GoldenCase {
  readonly tokens: readonly number[];
  readonly exact: { readonly positions: readonly { readonly next?: number }[]; readonly meanNll: number };
  readonly asComputed: { readonly next: readonly number[] };
}

type NamedCase = readonly [key: string, wanted: GoldenCase];

const MODELS = {
  "fable-10m-Q4_K_M": "../../../models/fable-10m-Q4_K_M.gguf",
  "fable-10m-Q8_0": "../../fixtures/models/fable-10m-Q8_0.gguf",
  "fable-3m-qwen2-F16": "../../fixtures/models/fable-3m-qwen2-F16.gguf",
  "fable-3m-qwen2-Q4_K_M": "../../fixtures/models/fable-3m-qwen2-Q4_K_M.gguf",
  "fable-3m-qwen2-Q8_0": "../../fixtures/models/fable-3m-qwen2-Q8_0.gguf",
} as const;

const NAMES = Object.keys(MODELS) as (keyof typeof MODELS)[];
const FEW_NAMES: typeof NAMES = ["fable-3m-qwen2-Q4_K_M"];
const FEW_BYTE_NAMES: typeof NAMES = ["fable-3m-qwen2-Q8_0"];
const BYTE_NAMES: typeof NAMES = NAMES.filter((name) => !name.endsWith("F16"));

const local = (path: string): string => new URL(path, import.meta.url).pathname;
const mean = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0) / values.length;

function goldenCases(name: string): Readonly<Record<string, GoldenCase>> {
  return (
    readPacked(new URL(`../../fixtures/golden/${name}.json.br`, import.meta.url)) as {
      cases: Record<string, GoldenCase>;
    }
  ).cases;
}

/** The log-probability of each token after the first. */
async function nextLogProbabilities(model: Model, tokens: readonly number[]): Promise<readonly number[]> {
  const width = model.vocabularySize;
  const logs = logProbabilities(await model.logits(tokens), width);
  return tokens.slice(1).map((token, row) => logs[row * width + token]);
}

async function expectDrift(
  name: keyof typeof MODELS,
  backend: Backend,
  choose: (all: readonly NamedCase[], few: readonly NamedCase[]) => readonly NamedCase[],
): Promise<void> {
  await using model = await Model.open(local(MODELS[name]), backend);
  const drifts: number[] = [];
  const theirs: number[] = [];
  const cases = Object.entries(goldenCases(name));
  const short = cases.filter(([key]) => key !== "window");
  for (const [key, { tokens, exact, asComputed }] of choose(cases, short)) {
    const found = await nextLogProbabilities(model, tokens);
    const expected = exact.positions.flatMap(({ next }) => next ?? []);
    expect(found).toHaveLength(expected.length);
    const drift = found.map((value, index) => Math.abs(value - expected[index]));
    const theirDrift = asComputed.next.map((value, index) => Math.abs(value - expected[index]));
    drifts.push(...drift);
    theirs.push(...theirDrift);
    if (key !== "window") continue;
    expect(Math.abs(-mean(found) - exact.meanNll)).toBeLessThan(MEAN_TOLERANCE);
    expect(mean(drift)).toBeLessThan(Math.max(DRIFT_FLOOR, DRIFT_RATIO * mean(theirDrift)));
  }
  expect(mean(drifts)).toBeLessThan(Math.max(DRIFT_FLOOR, DRIFT_RATIO * mean(theirs)));
}

describeSubjects(
  (subject) => {
    it.each(subject.inTurn(NAMES, FEW_NAMES))("%s drifts from exact no further than llama.cpp does", async (name) => {
      await expectDrift(name, subject.create(), (all, few) => subject.cases(all, few));
    });
  },
  { waveSize: 64 },
);

describeEmulator("hip emulated as RDNA4, whose prompts are products of bytes", () => {
  it.each(FULL_RUN ? BYTE_NAMES : FEW_BYTE_NAMES)("%s drifts no further either", async (name) => {
    const backend = openPretended({ architecture: "gfx1201", waveSize: 32 });
    await expectDrift(name, backend, (all, few) => (FULL_RUN ? all : few));
  });
});

const heldOut = local("../../../../shared/models/held-out-stories.txt");

describeCpu("perplexity of the whole held-out text", () => {
  it.skipIf(!FULL_RUN || !existsSync(heldOut)).each(PERPLEXITIES)(
    "of %s is llama.cpp's %f (needs npm run test:full and the held-out text in ../shared/models)",
    async (name, expected) => {
      await using model = await Model.open(local(MODELS[name]), BEST_SUBJECT.create());
      let perplexity = Number.NaN;
      for await (const progress of model.perplexity(readFileSync(heldOut, "utf8"), { windowTokens: 512 }))
        ({ perplexity } = progress);
      expect(Math.abs(perplexity / expected - 1)).toBeLessThan(PERPLEXITY_TOLERANCE);
    },
  );
});
