// What a step of several tokens of one sequence costs, as the verification of drafts has it:
// `npm run bench -- verify FILE [backend] [depth] [tokens,…] [threads]`. Sizes are interleaved, every token's candidates
// are wanted, and recurrent layers keep the state after each token in a slot of its own. On `cpu` with the time by kind
// of instruction in the fastest round.

import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { StepInput } from "../src/backends/contract.js";
import type { NativeProfileEntry } from "../src/backends/cpu/native-bindings.js";
import { spreadOf } from "../src/cli/bench/spread.js";
import type { ExecutionPlan } from "../src/internals.js";

const DEFAULT_DEPTH = 128;
const DEFAULT_COUNTS = [1, 2, 4, 8];
const WARM_ROUNDS = 3;
const ROUNDS = 25;
/** Any tokens will do; these are in the vocabulary of every published model. */
const VOCABULARY = 900;
/** Steps of more tokens are measured as prefill: only the last token has candidates and a state that is kept. */
const MOST_DRAFTED = 16;

type Profile = readonly NativeProfileEntry[];

export async function run([
  path,
  backendName = "cpu",
  depthText = String(DEFAULT_DEPTH),
  countsText = DEFAULT_COUNTS.join(","),
  threadsText = "2",
]: readonly string[]): Promise<void> {
  if (path === undefined) throw new TypeError("verify: expected a model file");
  const depth = countOf("depth", depthText);
  const counts = countsText.split(",").map((text) => countOf("tokens", text));
  // The package itself: its addon and its kernels are found from there, and not from where this file is compiled to.
  const library = pathToFileURL(join(process.cwd(), "dist", "internals.js")).href;
  const { createBackend, ExecutionPlan, GgufLoader } = (await import(library)) as typeof import("../src/internals.js");
  const threads = backendName === "cpu" ? { threads: countOf("threads", threadsText) } : {};
  await using backend = await createBackend(backendName, threads);
  let profile = (): Profile => [];
  const compile = backend.compile.bind(backend);
  backend.compile = (...args) => {
    const compiled = compile(...args) as ReturnType<typeof compile> & { readonly profile?: () => Profile };
    profile = () => compiled.profile?.() ?? [];
    return compiled;
  };
  await using loader = await GgufLoader.open(path);
  await using plan = ExecutionPlan.fromLoader(loader, backend, { contextTokens: depth + Math.max(...counts) });
  console.log(`verify: ${path}, ${backend.description.summary}, after ${depth} tokens, medians of ${ROUNDS}`);
  const measured = await measure(plan, depth, counts, () => profile());
  const [one] = measured;
  for (const { count, times, processor, kinds } of measured) {
    console.log(
      `  ${count} tokens: ${relative(times, one.times)}; processor time ${relative(processor, one.processor)}`,
    );
    const parts = [...kinds].toSorted((left, right) => right[1] - left[1]);
    if (parts.length > 0) console.log(`    ${parts.map(([kind, ms]) => `${kind} ${ms.toFixed(2)}`).join(", ")}`);
  }
}

function relative(times: readonly number[], one: readonly number[]): string {
  const { median, min, max } = spreadOf(times);
  const ratio = (median / spreadOf(one).median).toFixed(2);
  return `${median.toFixed(1)} ms (${min.toFixed(1)} to ${max.toFixed(1)}), ${ratio} ×`;
}

interface Measured {
  readonly count: number;
  readonly times: number[];
  /** Processor time of all threads, which says more than the time of a step while other programs run. */
  readonly processor: number[];
  /** Milliseconds of the fastest round by kind of instruction. */
  readonly kinds: Map<string, number>;
}

async function measure(
  plan: ExecutionPlan,
  depth: number,
  counts: readonly number[],
  profile: () => Profile,
): Promise<readonly Measured[]> {
  const { blockTokens, contextTokens } = plan.config;
  const blocks = Math.ceil(contextTokens / blockTokens);
  const table = Int32Array.from({ length: blocks }, (_, block) => block);
  const groups = plan.program.kv.groups?.length ?? (plan.program.kv.layers === 0 ? 0 : 1);
  const sizes = Array.from({ length: groups }, () => blocks);
  using cache = plan.createGroupedKvCache(sizes, 1 + MOST_DRAFTED);
  const tables = Array.from({ length: Math.max(1, groups) }, () => table);
  await readPrompt(plan, cache, tables, depth);
  const measured = counts.map((count): Measured => ({ count, times: [], processor: [], kinds: new Map() }));
  for (let round = -WARM_ROUNDS; round < ROUNDS; round++) {
    for (const { count, times, processor, kinds } of measured) {
      const before = new Map(profile().map(({ kind, milliseconds }) => [kind, milliseconds]));
      const start = performance.now();
      const busy = process.cpuUsage();
      await plan.step(verification(plan, tables, depth, count), cache);
      const { user, system } = process.cpuUsage(busy);
      const time = performance.now() - start;
      if (round < 0) continue;
      times.push(time);
      processor.push((user + system) / 1000);
      if (time > Math.min(...times)) continue;
      for (const { kind, milliseconds } of profile()) kinds.set(kind, milliseconds - (before.get(kind) ?? 0));
    }
  }
  return measured;
}

/** The next tokens of the sequence, with the state of the prompt in slot 0 and one more slot for each token. */
function verification(plan: ExecutionPlan, tables: readonly Int32Array[], depth: number, count: number): StepInput {
  const positions = Int32Array.from({ length: count }, (_, index) => depth + index);
  const isRecurrent = plan.program.kv.states !== undefined;
  const firstKept = count > MOST_DRAFTED ? count - 1 : 0;
  return {
    tokens: positions.map((position) => (position * 31) % VOCABULARY),
    positions,
    sequenceOffsets: Int32Array.of(0, count),
    blockTables: tables,
    outputs: Array.from(positions.keys())
      .slice(firstKept)
      .map((row) => ({ row, want: { kind: "candidates", count: 1 } })),
    ...(isRecurrent
      ? {
          stateReads: Int32Array.of(0),
          stateWrites: positions.map((_, index) => (index < firstKept ? -1 : index - firstKept + 1)),
        }
      : {}),
  };
}

async function readPrompt(
  plan: ExecutionPlan,
  cache: ReturnType<ExecutionPlan["createKvCache"]>,
  tables: readonly Int32Array[],
  depth: number,
): Promise<void> {
  const chunk = plan.backend.chunkTokens ?? plan.backend.maxStepTokens;
  for (let first = 0; first < depth; first += chunk) {
    const positions = Int32Array.from({ length: Math.min(chunk, depth - first) }, (_, index) => first + index);
    const tokens = positions.map((position) => position % VOCABULARY);
    const stateWrites = new Int32Array(tokens.length).fill(-1);
    stateWrites[tokens.length - 1] = 0;
    const states =
      plan.program.kv.states === undefined ? {} : { stateReads: Int32Array.of(first === 0 ? -1 : 0), stateWrites };
    await plan.step(
      {
        tokens,
        positions,
        sequenceOffsets: Int32Array.of(0, tokens.length),
        blockTables: tables,
        outputs: [],
        ...states,
      },
      cache,
    );
  }
}

function countOf(what: string, text: string): number {
  const count = Number(text);
  if (Number.isSafeInteger(count) && count >= 1) return count;
  throw new RangeError(`verify: expected ${what} of 1 or more, found ${text}`);
}
