// What sampling costs, and whether the device draws as the host does: `npm run bench -- sampling FILE [backend] [rounds]
// [tokens]`. Many streams of the engine with each kind of sampling, in turns; then `tokens` tokens at temperature 1 from the
// whole distribution, chosen by the step, and again by the host's chain from the same rows with the same seed.

import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { StepInput } from "../src/backends/contract.js";
import { spreadOf } from "../src/cli/bench/spread.js";
import type { CompletionRequest, ModelEngine } from "../src/engine/serving.js";
import type { BackendName } from "../src/index.js";
import type { Sampler } from "../src/sampler/sampler.js";

const STREAMS = 64;
const PROMPT_TOKENS = 16;
const STREAMED_TOKENS = 128;
const DEFAULT_ROUNDS = 5;
const DEFAULT_TOKENS = 10_000;
const CONTEXT_TOKENS = 512;
/** Every published model's vocabulary has more tokens than this. */
const ORDINARY_TOKENS = 900;
/** Draws this near to the boundary between two tokens may come out either way. */
const BOUNDARY = 1e-5;
const NEARNESS_STRIDE = 16;

type Sampling = NonNullable<CompletionRequest["sampling"]>;
const OFF = { temperature: 1, topK: 0, topP: 1, minP: 0 } as const;
const SAMPLINGS = {
  greedy: { temperature: 0 },
  "whole distribution": OFF,
  "as by default": {},
  "default with penalties": { repeatPenalty: 1.1, presencePenalty: 0.5 },
  "top-p 0.95": { ...OFF, topP: 0.95 },
  "min-p 0.05": { ...OFF, minP: 0.05 },
  "typical 0.9 and top-p 0.95": { ...OFF, typicalP: 0.9, topP: 0.95 },
} satisfies Record<string, Sampling>;

export async function run([
  path,
  backend = "auto",
  rounds = String(DEFAULT_ROUNDS),
  tokens = String(DEFAULT_TOKENS),
]: readonly string[]): Promise<void> {
  if (path === undefined) throw new TypeError("sampling: expected a model file");
  if (Number(rounds) > 0) await compareRates(path, backend, Number(rounds));
  if (Number(tokens) > 0) await compareTokens(path, backend, Number(tokens));
}

/** The package itself: its addon and its kernels are found from there, and not from where this file is compiled to. */
async function load<Module>(file: string): Promise<Module> {
  return (await import(pathToFileURL(join(process.cwd(), "dist", file)).href)) as Module;
}

const internals = (): Promise<typeof import("../src/internals.js")> => load("internals.js");

async function compareRates(path: string, backend: string, rounds: number): Promise<void> {
  const { openModel } = await internals();
  await using model = await openModel(
    path,
    { backend: backend as BackendName, contextTokens: CONTEXT_TOKENS },
    { serving: {} },
  );
  console.log(
    `sampling: ${path}, ${STREAMS} streams, ${STREAMED_TOKENS} tokens after ${PROMPT_TOKENS}, medians of ${rounds}`,
  );
  const rates = new Map<string, number[]>();
  const between = new Map<string, number[]>();
  for (let round = 0; round <= rounds; round++) {
    for (const [name, sampling] of Object.entries(SAMPLINGS)) {
      const before = model.engine.statistics();
      const rate = await written(model.engine, sampling, round);
      const after = model.engine.statistics();
      // The first round compiles and captures.
      if (round === 0) continue;
      rates.set(name, [...(rates.get(name) ?? []), rate]);
      const betweenMs = (after.betweenStepsMs - before.betweenStepsMs) / (after.steps - before.steps);
      between.set(name, [...(between.get(name) ?? []), betweenMs]);
    }
  }
  const greedy = spreadOf(rates.get("greedy") ?? []).median;
  for (const [name, values] of rates) {
    const { median, min, max } = spreadOf(values);
    const betweenMs = spreadOf(between.get(name) ?? []).median;
    console.log(
      `  ${name}: ${median.toFixed(0)} tokens/s in all (${min.toFixed(0)} to ${max.toFixed(0)}), ` +
        `${((100 * median) / greedy).toFixed(1)} % of greedy, ${betweenMs.toFixed(3)} ms between steps`,
    );
  }
}

/** Tokens per second of all streams together, from when each has its first. */
async function written(served: ModelEngine, sampling: Sampling, round: number): Promise<number> {
  let begun = 0;
  let startMs = 0;
  let counted = 0;
  const write = async (stream: number): Promise<void> => {
    const prompt = Int32Array.from(
      { length: PROMPT_TOKENS },
      (_, index) => 3 + (((round * STREAMS + stream) * 7919 + index * 97) % ORDINARY_TOKENS),
    );
    let first = true;
    const request = { prompt, maxTokens: STREAMED_TOKENS, ignoreEndOfGeneration: true, sampling };
    for await (const { tokens } of served.complete(request)) {
      if (first && tokens.length > 0) {
        first = false;
        if (++begun === STREAMS) startMs = performance.now();
      } else if (startMs > 0) {
        counted += tokens.length;
      }
    }
  };
  await Promise.all(Array.from({ length: STREAMS }, (_, stream) => write(stream)));
  return (counted * 1000) / (performance.now() - startMs);
}

async function compareTokens(path: string, backendName: string, count: number): Promise<void> {
  const { createBackend, ExecutionPlan, GgufLoader } = await internals();
  const { Sampler } = await load<typeof import("../src/sampler/sampler.js")>("sampler/sampler.js");
  const { choose } = await load<typeof import("../src/sampler/token-choice.js")>("sampler/token-choice.js");
  await using backend = await createBackend(backendName);
  await using loader = await GgufLoader.open(path);
  const steps = Math.ceil(count / STREAMS);
  await using plan = ExecutionPlan.fromLoader(loader, backend, { contextTokens: Math.max(STREAMS, steps + 1) });
  const { vocabularySize } = plan.program;
  const blocks = Math.ceil((steps + 1) / plan.config.blockTokens);
  using cache = plan.createKvCache(blocks * plan.config.blockTokens * STREAMS, STREAMS);
  const blockTables = Array.from({ length: STREAMS }, (_, stream) =>
    Int32Array.from({ length: blocks }, (_unused, block) => stream * blocks + block),
  );
  const samplers = Array.from({ length: STREAMS }, (_, seed): [Sampler, Sampler] => [
    new Sampler({ ...OFF, seed }, { vocabularySize }),
    new Sampler({ ...OFF, seed }, { vocabularySize }),
  ]);
  let tokens = Int32Array.from({ length: STREAMS }, (_, stream) => 3 + stream);
  let [same, near, wrong, within] = [0, 0, 0, 0];
  for (let position = 0; position < steps; position++) {
    const input: Omit<StepInput, "outputs"> = {
      tokens,
      positions: new Int32Array(STREAMS).fill(position),
      sequenceOffsets: Int32Array.from({ length: STREAMS + 1 }, (_, stream) => stream),
      blockTables,
    };
    const wants = samplers.map(([sampler], row) => ({
      row,
      want: sampler.tokenWant(0, 0) ?? ({ kind: "logits" } as const),
    }));
    const chosen = await plan.step({ ...input, outputs: wants }, cache);
    // The same step again: it writes the same keys and values, and returns the rows themselves.
    const rows = await plan.step(
      { ...input, outputs: wants.map(({ row }) => ({ row, want: { kind: "logits" } })) },
      cache,
    );
    tokens = Int32Array.from(samplers, ([sampler, host], stream) => {
      const [row, logits, { want }] = [chosen[stream], rows[stream], wants[stream]];
      if (row.kind !== "token" || logits.kind !== "logits" || want.kind !== "token") throw new TypeError(row.kind);
      const token = sampler.take(row);
      const expected = host.sample(logits).token;
      // Walks of a large vocabulary take a millisecond each: of the tokens that agree, some stand for all.
      if (token === expected && ++same % NEARNESS_STRIDE !== 0) return expected;
      const isNear = [-BOUNDARY, BOUNDARY].some(
        (shift) => choose(logits, { ...want.sampling, draw: clamp(want.sampling.draw + shift) }) !== expected,
      );
      if (token === expected && isNear) within++;
      else if (token !== expected && isNear) near++;
      else if (token !== expected) wrong++;
      return expected;
    });
  }
  console.log(
    `  ${steps * STREAMS} tokens of ${vocabularySize} at temperature 1: ${same} the same as the host's, ` +
      `${near} others within ${BOUNDARY} of a boundary, ${wrong} wrong ` +
      `(${within} of ${Math.floor(same / NEARNESS_STRIDE)} draws that agree are as near to one)`,
  );
}

function clamp(draw: number): number {
  return Math.min(1 - Number.EPSILON, Math.max(0, draw));
}
