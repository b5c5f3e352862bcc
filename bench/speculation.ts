// What drafts bring: `npm run bench -- speculation FILE [backend] [tokens]`. Weights may be random: a script replaces each
// sampled token by the next one of a written text, while the drafter sees only prompt and answer so far. "repeat" writes
// the prompt's text again with one change, "new" writes tokens that occur nowhere before. With and without drafts in turn.
// What a step of several tokens costs, compared with one: bench/verify.ts.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { spreadOf } from "../src/cli/bench/spread.js";
import type { Model } from "../src/internals.js";

const DEFAULT_TOKENS = 400;
const RUNS = 5;
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
