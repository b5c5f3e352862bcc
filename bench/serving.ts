// What batching costs and gains: `npm run bench -- serving FILE [rounds] [peer]`. One request alone, eight concurrent
// requests, a second one with the same prefix as the first, and the share of time between steps with 64 streams of the
// embedded model. `peer` compares eight concurrent requests with node-llama-cpp at one and two threads, in turns (after
// `npm run bench:peers`, which installs it). Medians, with the lowest and the highest.

import { execFile } from "node:child_process";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { spreadOf } from "../src/cli/bench/spread.js";
import type { CompletionRequest, ModelEngine } from "../src/engine/serving.js";
import type { Model } from "../src/index.js";

const TOGETHER = 8;
const STREAMS = 64;
const PROMPT_TOKENS = 16;
const WRITTEN_TOKENS = 64;
const PREFIX_TOKENS = 1000;
const CONTEXT_TOKENS = 2048;
const DEFAULT_ROUNDS = 5;
/** The vocabulary of every published model has at least this many ordinary tokens; the embedded model's has fewer. */
const ORDINARY_TOKENS = 3_900;
const TOKEN_STRIDE = 97;
const EMBEDDED_MODEL = "models/fable-10m-Q4_K_M.gguf";
const PEER_THREADS = [1, 2] as const;
const STREAMED_TOKENS = 256;

type Sampling = NonNullable<CompletionRequest["sampling"]>;
const SAMPLINGS = {
  greedy: { temperature: 0 },
  "as by default": {},
  "whole distribution": { temperature: 1, topK: 0, topP: 1, minP: 0 },
} satisfies Record<string, Sampling>;

const execute = promisify(execFile);

export async function run([path, rounds = String(DEFAULT_ROUNDS), peer]: readonly string[]): Promise<void> {
  if (path === undefined) throw new TypeError("serving: expected a model file");
  await compare(path, Number(rounds), peer === "peer");
  await overhead();
}

async function compare(path: string, rounds: number, withPeer: boolean): Promise<void> {
  await using model = await open(path, CONTEXT_TOKENS);
  const served = model.engine;
  console.log(`serving: ${path}, ${WRITTEN_TOKENS} tokens after ${PROMPT_TOKENS}, ${rounds} rounds`);
  await written(served, [promptOf(0, PROMPT_TOKENS)]);
  const times = { alone: [] as number[], together: [] as number[], gain: [] as number[], prefix: [] as number[] };
  const peers = PEER_THREADS.map((threads) => ({ threads, rates: [] as number[] }));
  for (let round = 0; round < rounds; round++) {
    const prompts = Array.from({ length: TOGETHER }, (_, index) =>
      promptOf(1 + round * TOGETHER + index, PROMPT_TOKENS),
    );
    const alone = await written(served, prompts.slice(0, 1));
    const together = await written(served, prompts);
    times.alone.push(alone);
    times.together.push(together);
    times.gain.push(together / alone);
    times.prefix.push(await prefixGain(served, round));
    if (!withPeer) continue;
    for (const { threads, rates } of peers) rates.push(await peerRate(path, threads, prompts));
  }
  report("one request", times.alone, "tokens/s");
  report(`${TOGETHER} together`, times.together, "tokens/s in all");
  report("against one", times.gain, "×");
  report(
    `first token of a second prompt with the same ${PREFIX_TOKENS} tokens`,
    times.prefix,
    "of the first one's time",
  );
  if (!withPeer) return;
  for (const { threads, rates } of peers)
    report(`node-llama-cpp, ${TOGETHER} sequences, ${threads} threads`, rates, "tokens/s in all");
  const best = peers.map(({ rates }) => spreadOf(rates).median).reduce((left, right) => Math.max(left, right));
  console.log(`  against the better of them: ${(spreadOf(times.together).median / best).toFixed(2)} ×`);
}

/** The time between steps with many streams, as a share of all time, for each kind of sampling. */
async function overhead(): Promise<void> {
  await using model = await open(EMBEDDED_MODEL, 512);
  const served = model.engine;
  await written(served, [promptOf(0, PROMPT_TOKENS)]);
  console.log(`${STREAMS} streams of the embedded model:`);
  for (const [name, sampling] of Object.entries(SAMPLINGS)) await overheadOf(served, name, sampling);
}

async function overheadOf(served: ModelEngine, name: string, sampling: Sampling): Promise<void> {
  const before = served.statistics();
  const startMs = performance.now();
  const prompts = Array.from({ length: STREAMS }, (_, index) => promptOf(index, PROMPT_TOKENS));
  const rate = await written(served, prompts, { tokens: STREAMED_TOKENS, sampling });
  const wallMs = performance.now() - startMs;
  const after = served.statistics();
  const betweenMs = after.betweenStepsMs - before.betweenStepsMs;
  const steps = after.steps - before.steps;
  const stepMs = (after.stepsMs - before.stepsMs) / steps;
  const share = (100 * betweenMs) / wallMs;
  console.log(
    `  ${name}: ${rate.toFixed(0)} tokens/s in all, ${steps} steps of ${stepMs.toFixed(2)} ms, ${share.toFixed(1)} % between them (${(betweenMs / steps).toFixed(3)} ms each)`,
  );
}

async function open(path: string, contextTokens: number): Promise<Model> {
  // The package itself: its addon is found from there, and not from where this file is compiled to.
  const library = (await import(
    pathToFileURL(join(process.cwd(), "dist", "internals.js")).href
  )) as typeof import("../src/internals.js");
  return await library.openModel(path, { backend: "cpu", threads: 2, contextTokens }, { serving: {} });
}

/** Tokens per second of all sequences together, from when each has generated its first. */
async function written(
  served: ModelEngine,
  prompts: readonly Int32Array[],
  {
    tokens = WRITTEN_TOKENS,
    sampling = SAMPLINGS.greedy,
  }: { readonly tokens?: number; readonly sampling?: Sampling } = {},
): Promise<number> {
  let begun = 0;
  let startMs = 0;
  let counted = 0;
  const write = async (prompt: Int32Array): Promise<void> => {
    let first = true;
    for await (const piece of served.complete({ prompt, maxTokens: tokens, ignoreEndOfGeneration: true, sampling })) {
      if (first && piece.tokens.length > 0) {
        first = false;
        if (++begun === prompts.length) startMs = performance.now();
      } else if (startMs > 0) {
        counted += piece.tokens.length;
      }
    }
  };
  await Promise.all(prompts.map(write));
  return (counted * 1000) / (performance.now() - startMs);
}

async function prefixGain(served: ModelEngine, round: number): Promise<number> {
  const prefix = promptOf(1_000_003 * (round + 1), PREFIX_TOKENS);
  const firstToken = async (last: number): Promise<number> => {
    const completion = served.complete({
      prompt: Int32Array.of(...prefix, last),
      maxTokens: 1,
      ignoreEndOfGeneration: true,
      sampling: { temperature: 0 },
    });
    for await (const _ of completion);
    return (await completion.summary).timeToFirstTokenMs;
  };
  const first = await firstToken(11);
  return (await firstToken(12)) / first;
}

async function peerRate(modelPath: string, threads: number, prompts: readonly Int32Array[]): Promise<number> {
  const rates: number[] = [];
  for (const flashAttention of [true, false]) {
    const request = {
      modelPath,
      threads,
      flashAttention,
      prompts: prompts.map((prompt) => [...prompt]),
      count: WRITTEN_TOKENS,
    };
    const { stdout } = await execute(
      process.execPath,
      [join("bench", "peers", "measure-sequences-peer.mjs"), JSON.stringify(request)],
      { maxBuffer: 1 << 24 },
    );
    rates.push((JSON.parse(stdout) as { tokensPerSecond: number }).tokensPerSecond);
  }
  return Math.max(...rates);
}

function promptOf(seed: number, tokens: number): Int32Array {
  return Int32Array.from(
    { length: tokens },
    (_, index) => 3 + ((seed * 7919 + index * TOKEN_STRIDE) % ORDINARY_TOKENS),
  );
}

function report(what: string, values: readonly number[], unit: string): void {
  const { median, min, max } = spreadOf([...values]);
  const digits = median < 10 ? 2 : 1;
  console.log(`  ${what}: ${median.toFixed(digits)} (${min.toFixed(digits)} to ${max.toFixed(digits)}) ${unit}`);
}
