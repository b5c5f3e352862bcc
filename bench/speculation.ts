// What drafts bring: `npm run bench -- speculation FILE [backend] [tokens]`. Weights may be random: a script replaces each
// sampled token by the next one of a written text, while the drafter sees only prompt and answer so far. "repeat" writes
// the prompt's text again with one change, "new" writes tokens that occur nowhere before. With and without drafts in turn;
// and what a step of several tokens of one sequence costs, compared with one token.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { spreadOf } from "../src/cli/bench/spread.js";
import type { ExecutionPlan, Model } from "../src/internals.js";

const DEFAULT_TOKENS = 400;
const RUNS = 5;
const STEP_TOKENS = [1, 2, 4, 8, 16];
const STEPS = 12;
const LEAST_SPEEDUP = 2.5;
const LARGEST_LOSS = 0.03;

interface Script {
  readonly prompt: Int32Array;
  readonly answer: Int32Array;
}

export async function run([
  path,
  backend = "auto",
  tokensText = String(DEFAULT_TOKENS),
]: readonly string[]): Promise<void> {
  if (path === undefined) throw new TypeError("speculation: expected a model file");
  const tokens = Number(tokensText);
  const library = pathToFileURL(join(process.cwd(), "dist", "internals.js")).href;
  const { openModel } = (await import(library)) as typeof import("../src/internals.js");
  const options = { backend: backend as "auto", contextTokens: Math.max(2048, 4 * tokens) };
  await using plain = await openModel(path, { ...options, draft: "off" });
  await using drafting = await openModel(path, { ...options, draft: "auto" });
  console.log(`speculation: ${path}, ${plain.plan.backend.description.summary}, medians of ${RUNS} interleaved runs`);
  await reportSteps(plain.plan);
  const repeat = await compare(plain, drafting, repeatScript(plain, tokens));
  console.log(`  repeat with one change: ${describe(repeat)}, expected at least ${LEAST_SPEEDUP}`);
  const fresh = await compare(plain, drafting, newScript(plain, tokens));
  console.log(`  nothing matches: ${describe(fresh)}, expected at least ${1 - LARGEST_LOSS}`);
}

/** The text of this repository's changelog, and the same with one word replaced in the middle. */
function repeatScript(model: Model, tokens: number): Script {
  const text = readFileSync(join(process.cwd(), "CHANGELOG.md"), "utf8");
  const file = model.tokenize(text, { parseSpecial: false }).slice(0, tokens);
  const answer = file.slice();
  answer[Math.floor(tokens / 2)] = (answer[Math.floor(tokens / 2)] + 1) % 1000;
  return { prompt: file, answer };
}

/** Tokens that differ from all before them. */
function newScript(model: Model, tokens: number): Script {
  const step = Math.floor(model.vocabularySize / (2 * tokens + 1));
  const all = Int32Array.from({ length: 2 * tokens }, (_, index) => (index * step + 300) % model.vocabularySize);
  return { prompt: all.slice(0, tokens), answer: all.slice(tokens) };
}

interface Comparison {
  readonly plain: number;
  readonly drafted: number;
  /** Medians of the runs' ratios: neighbours in time share the machine's state. */
  readonly ratio: number;
  readonly acceptance: string;
}

async function compare(plain: Model, drafting: Model, script: Script): Promise<Comparison> {
  const rates: [number, number][] = [];
  let acceptance = "";
  for (let round = -1; round < RUNS; round++) {
    const without = await write(plain, script);
    const withDrafts = await write(drafting, script);
    acceptance = `${withDrafts.acceptedTokens} of ${withDrafts.draftedTokens} draft tokens accepted`;
    // The first round loads weights and compiles kernels.
    if (round >= 0) rates.push([without.tokensPerSecond, withDrafts.tokensPerSecond]);
  }
  return {
    plain: spreadOf(rates.map(([rate]) => rate)).median,
    drafted: spreadOf(rates.map(([, rate]) => rate)).median,
    ratio: spreadOf(rates.map(([one, other]) => other / one)).median,
    acceptance,
  };
}

async function write(model: Model, { prompt, answer }: Script) {
  const completion = model.engine.complete({
    prompt,
    maxTokens: answer.length,
    scriptedTokens: answer,
    sampling: { temperature: 0 },
    ignoreEndOfGeneration: true,
  });
  return await completion.summary;
}

function describe({ plain, drafted, ratio, acceptance }: Comparison): string {
  return `${plain.toFixed(1)} tokens/s without, ${drafted.toFixed(1)} with drafts (${acceptance}): ${ratio.toFixed(3)} ×`;
}

/** Steps of one sequence with a row for each token, as verification has them; sizes in turn. */
async function reportSteps(plan: ExecutionPlan): Promise<void> {
  const { blockTokens } = plan.config;
  const depth = 128;
  const length = depth + Math.max(...STEP_TOKENS);
  using cache = plan.createKvCache(Math.ceil(length / blockTokens) * blockTokens);
  const table = Int32Array.from({ length: Math.ceil(length / blockTokens) }, (_, block) => block);
  const step = async (start: number, count: number, outputs: number): Promise<number> => {
    const startMs = performance.now();
    await plan.step(
      {
        tokens: Int32Array.from({ length: count }, (_, index) => 300 + index),
        positions: Int32Array.from({ length: count }, (_, index) => start + index),
        sequenceOffsets: Int32Array.of(0, count),
        blockTables: [table],
        outputs: Array.from({ length: outputs }, (_, index) => ({
          row: count - outputs + index,
          want: { kind: "candidates", count: 1 } as const,
        })),
      },
      cache,
    );
    return performance.now() - startMs;
  };
  await step(0, depth, 1);
  const times = new Map(STEP_TOKENS.map((count) => [count, [] as number[]]));
  for (let round = -2; round < STEPS; round++) {
    for (const [count, taken] of times) {
      const milliseconds = await step(depth, count, count);
      if (round >= 0) taken.push(milliseconds);
    }
  }
  const one = spreadOf(times.get(1) ?? []).median;
  for (const [count, taken] of times) {
    const { median } = spreadOf(taken);
    console.log(`  a step of ${count} tokens: ${median.toFixed(2)} ms, ${(median / one).toFixed(2)} × one`);
  }
}
