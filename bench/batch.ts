// How fast many sequences decode together: `npm run bench -- batch FILE [backend] [depth] [sequences,…]`. Every step
// decodes one token of each sequence, after prompts of `depth` tokens; the time is that of plan.step, host included.

import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { StepInput } from "../src/backends/contract.js";
import { spreadOf } from "../src/cli/bench/spread.js";
import type { ExecutionPlan } from "../src/internals.js";
import { ownStateSlots } from "../src/plan/state-slot-check.js";

const DEFAULT_DEPTH = 128;
const DEFAULT_COUNTS = [1, 4, 16, 64];
/** Enough steps for kernels of smaller batches to be compiled and captured before the measurement. */
const WARM_STEPS = 40;
const STEPS = 128;
const RUNS = 3;
/** Any tokens will do; these are in the vocabulary of every published model. */
const VOCABULARY = 900;

export async function run([
  path,
  backendName = "auto",
  depthText = String(DEFAULT_DEPTH),
  countsText = DEFAULT_COUNTS.join(","),
]: readonly string[]): Promise<void> {
  if (path === undefined) throw new TypeError("batch: expected a model file");
  const depth = countOf("depth", depthText);
  // The package itself: its addon and its kernels are found from there, and not from where this file is compiled to.
  const library = pathToFileURL(join(process.cwd(), "dist", "internals.js")).href;
  const { createBackend, ExecutionPlan, GgufLoader } = (await import(library)) as typeof import("../src/internals.js");
  await using backend = await createBackend(backendName);
  console.log(`batch: ${path}, ${backend.description.summary}, ${STEPS} tokens after ${depth}, medians of ${RUNS}`);
  for (const sequences of countsText.split(",").map((text) => countOf("sequences", text))) {
    await using loader = await GgufLoader.open(path);
    await using plan = ExecutionPlan.fromLoader(loader, backend, { contextTokens: depth + WARM_STEPS + RUNS * STEPS });
    const { median, min, max } = spreadOf(await stepTimes(plan, depth, sequences));
    const rate = (milliseconds: number): string => ((sequences * 1000) / milliseconds).toFixed(0);
    console.log(
      `  ${sequences} sequences: ${rate(median)} tokens/s in all (${rate(max)} to ${rate(min)}), ${median.toFixed(3)} ms a step`,
    );
  }
}

/** The milliseconds of a step, in each run. */
async function stepTimes(plan: ExecutionPlan, depth: number, sequences: number): Promise<number[]> {
  const { blockTokens, contextTokens } = plan.config;
  const blocks = Math.ceil(contextTokens / blockTokens);
  using cache = plan.createKvCache(blocks * blockTokens * sequences, sequences);
  const tables = Array.from({ length: sequences }, (_, sequence) =>
    Int32Array.from({ length: blocks }, (_unused, block) => sequence * blocks + block),
  );
  const offsets = Int32Array.from({ length: sequences + 1 }, (_, sequence) => sequence);
  const outputs = Array.from({ length: sequences }, (_, row) => ({
    row,
    want: { kind: "candidates", count: 1 } as const,
  }));
  const step = async (position: number): Promise<void> => {
    const tokens = Int32Array.from({ length: sequences }, (_, sequence) => (position * 31 + sequence * 7) % VOCABULARY);
    const positions = new Int32Array(sequences).fill(position);
    const input = { tokens, positions, sequenceOffsets: offsets, blockTables: tables, outputs };
    await plan.step({ ...input, ...statesOf(plan, [...tables.keys()], input) }, cache);
  };
  for (const [sequence, table] of tables.entries()) await readPrompt(plan, cache, { sequence, table, depth });
  let position = depth;
  const times: number[] = [];
  for (let warm = 0; warm < WARM_STEPS; warm++) await step(position++);
  for (let round = 0; round < RUNS; round++) {
    const start = performance.now();
    for (let count = 0; count < STEPS; count++) await step(position++);
    times.push((performance.now() - start) / STEPS);
  }
  return times;
}

async function readPrompt(
  plan: ExecutionPlan,
  cache: ReturnType<ExecutionPlan["createKvCache"]>,
  { sequence, table, depth }: { readonly sequence: number; readonly table: Int32Array; readonly depth: number },
): Promise<void> {
  const chunk = plan.backend.chunkTokens ?? plan.backend.maxStepTokens;
  for (let first = 0; first < depth; first += chunk) {
    const positions = Int32Array.from({ length: Math.min(chunk, depth - first) }, (_, index) => first + index);
    const tokens = positions.map((position) => position % VOCABULARY);
    const sequenceOffsets = Int32Array.of(0, tokens.length);
    const input = { tokens, positions, sequenceOffsets, blockTables: [table], outputs: [] };
    await plan.step({ ...input, ...statesOf(plan, [sequence], input) }, cache);
  }
}

/** Sequences of a model with recurrent layers own the state slot of their number. */
function statesOf(plan: ExecutionPlan, sequences: readonly number[], input: StepInput): Partial<StepInput> {
  return plan.program.kv.states === undefined ? {} : ownStateSlots(sequences, input);
}

function countOf(what: string, text: string): number {
  const count = Number(text);
  if (Number.isSafeInteger(count) && count >= 1) return count;
  throw new RangeError(`batch: expected ${what} of 1 or more, found ${text}`);
}
