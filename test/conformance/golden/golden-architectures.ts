// The golden files of small models, one for each architecture: those in ../shared/golden/architectures, or else the copies
// in test/fixtures. Each prompt can be run whole, token by token, in chunks, or beside other sequences.

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { ARCHITECTURES } from "../../../src/architectures/registry.js";
import type { Backend, OutputRequest, StepInput } from "../../../src/backends/contract.js";
import { GgufLoader } from "../../../src/loader/gguf-loader.js";
import { ExecutionPlan } from "../../../src/plan/execution-plan.js";
import { readPacked } from "../../support/packed-json.js";

export interface GoldenModel {
  readonly name: string;
  readonly path: string;
  readonly architecture: string;
  /** Mean distance from the log-probabilities when llama.cpp rounds activations; absent if nothing rounds. */
  readonly drift?: number;
  readonly ids: readonly number[];
  /** For every position, the best next token and its log-probability. */
  readonly top: readonly (readonly [number, number])[];
  readonly positions: readonly number[];
  /** Of the whole vocabulary at `positions`. */
  readonly logProbs: readonly (readonly number[])[];
  readonly greedy: readonly number[];
}

const local = (path: string): string => new URL(path, import.meta.url).pathname;
const SHARED_GOLDEN = local("../../../../shared/golden/architectures/");
const SHARED_MODELS = local("../../../../shared/models/architectures/");
const FIXTURES = local("../../fixtures/architectures/");
/** The copies are packed. */
const GOLDEN_FILE = /\.json(?:\.br)?$/;

/** A golden file of a long prompt: no drift, but a tolerance of its own, and only the stored positions. */
export interface LongGoldenModel {
  readonly name: string;
  readonly path: string;
  readonly architecture: string;
  readonly tolerance: number;
  readonly ids: readonly number[];
  readonly positions: readonly number[];
  readonly logProbs: readonly (readonly number[])[];
}

/** Golden files of decoders whose architecture has a descriptor; encoders and rerankers have other fields. */
export function goldenModels(): readonly GoldenModel[] {
  return goldenFiles<GoldenModel>().filter(({ ids, drift }) => ids !== undefined && drift !== undefined);
}

/** Golden files with a tolerance of their own. */
export function longGoldenModels(): readonly LongGoldenModel[] {
  return goldenFiles<LongGoldenModel>().filter(({ ids, tolerance }) => ids !== undefined && tolerance !== undefined);
}

function goldenFiles<Model extends { readonly architecture: string }>(): readonly Model[] {
  const known = new Set(ARCHITECTURES.map(({ name }) => name));
  const [golden, models] = existsSync(SHARED_GOLDEN) ? [SHARED_GOLDEN, SHARED_MODELS] : [FIXTURES, FIXTURES];
  if (!existsSync(golden)) return [];
  return readdirSync(golden)
    .filter((file) => GOLDEN_FILE.test(file))
    .map((file): Model => {
      const content = contentOf(`${golden}${file}`) as Model & { readonly model: string };
      return { ...content, name: file.replace(GOLDEN_FILE, ""), path: `${models}${content.model}` };
    })
    .filter(({ architecture }) => known.has(architecture));
}

function contentOf(path: string): unknown {
  return path.endsWith(".br") ? readPacked(pathToFileURL(path)) : JSON.parse(readFileSync(path, "utf8"));
}

/** How a prompt reaches the model: in steps of so many tokens, alone or beside two other sequences. */
export interface PromptRun {
  readonly title: string;
  readonly chunk: number;
  readonly beside: boolean;
}

export const PROMPT_RUNS: readonly PromptRun[] = [
  { title: "in one go", chunk: Number.POSITIVE_INFINITY, beside: false },
  { title: "token by token", chunk: 1, beside: false },
  { title: "in chunks of 5", chunk: 5, beside: false },
  { title: "in chunks of 17 beside other sequences", chunk: 17, beside: true },
];

const BLOCK_TOKENS = 16;
const SEQUENCE_BLOCKS = 8;

/** The plan of a model whose KV blocks are shorter than its prompt. */
export async function withGoldenPlan<Result>(
  { path }: GoldenModel,
  backend: Backend,
  use: (plan: ExecutionPlan) => Promise<Result>,
): Promise<Result> {
  await using loader = await GgufLoader.open(path);
  const contextTokens = BLOCK_TOKENS * SEQUENCE_BLOCKS;
  await using plan = ExecutionPlan.fromLoader(loader, backend, { blockTokens: BLOCK_TOKENS, contextTokens });
  return await use(plan);
}

/** Logits after each token of the prompt. */
export async function promptLogits(
  plan: ExecutionPlan,
  ids: readonly number[],
  { chunk, beside }: PromptRun,
): Promise<readonly Float32Array[]> {
  using cache = plan.createKvCache(3 * BLOCK_TOKENS * SEQUENCE_BLOCKS, 3);
  const isRecurrent = plan.program.kv.states !== undefined;
  const size = Math.min(chunk, plan.backend.maxStepTokens, ids.length);
  const rows: Float32Array[] = [];
  for (let start = 0; start < ids.length; start += size) {
    const parts = [{ tokens: ids.slice(start, start + size), first: start, sequence: 0 }];
    if (beside) {
      // One sequence that decodes, and one that reads another prompt: the tokens of this one in reverse.
      const reversed = ids.toReversed();
      const step = start / size;
      parts.unshift({ tokens: [reversed[step]], first: step, sequence: 1 });
      parts.push({ tokens: reversed.slice(start, start + size), first: start, sequence: 2 });
    }
    const wanted = parts.findIndex(({ sequence }) => sequence === 0);
    const answers = await plan.step({ ...stepOf(parts, wanted), ...(isRecurrent ? slotsOf(parts) : {}) }, cache);
    for (const row of answers) {
      if (row.kind !== "logits") throw new Error(`logits were asked for, and ${row.kind} came`);
      rows.push(row.logits);
    }
  }
  return rows;
}

interface SequencePart {
  readonly tokens: readonly number[];
  readonly first: number;
  readonly sequence: number;
}

/** Asks for the logits of the part `wanted`. */
function stepOf(parts: readonly SequencePart[], wanted: number): StepInput {
  const offsets = [0];
  for (const { tokens } of parts) offsets.push(offsets[offsets.length - 1] + tokens.length);
  return {
    tokens: Int32Array.from(parts.flatMap(({ tokens }) => tokens)),
    positions: Int32Array.from(parts.flatMap(({ tokens, first }) => tokens.map((_, index) => first + index))),
    sequenceOffsets: Int32Array.from(offsets),
    blockTables: parts.map(({ sequence }) =>
      Int32Array.from({ length: SEQUENCE_BLOCKS }, (_, index) => sequence * SEQUENCE_BLOCKS + index),
    ),
    outputs: parts[wanted].tokens.map((_, index): OutputRequest => ({
      row: offsets[wanted] + index,
      want: { kind: "logits" },
    })),
  };
}

/** The state slots of a step: each sequence has one of its own. */
function slotsOf(parts: readonly SequencePart[]): Pick<StepInput, "stateReads" | "stateWrites"> {
  return {
    stateReads: Int32Array.from(parts, ({ first, sequence }) => (first === 0 ? -1 : sequence)),
    stateWrites: Int32Array.from(
      parts.flatMap(({ tokens, sequence }) => tokens.map((_, index) => (index === tokens.length - 1 ? sequence : -1))),
    ),
  };
}

/** The tokens that follow the prompt if the likeliest is taken each time. */
export async function greedyTokens(plan: ExecutionPlan, { ids, greedy }: GoldenModel): Promise<readonly number[]> {
  using cache = plan.createKvCache(BLOCK_TOKENS * SEQUENCE_BLOCKS);
  let logits = new Float32Array();
  for (let start = 0; start < ids.length; start += plan.backend.maxStepTokens) {
    const chunk = Int32Array.from(ids.slice(start, start + plan.backend.maxStepTokens));
    logits = Float32Array.from(await plan.decode(chunk, start, cache));
  }
  const chosen: number[] = [];
  while (chosen.length < greedy.length) {
    const best = logits.indexOf(logits.reduce((most, logit) => Math.max(most, logit), Number.NEGATIVE_INFINITY));
    chosen.push(best);
    logits = Float32Array.from(await plan.decode(Int32Array.of(best), ids.length + chosen.length - 1, cache));
  }
  return chosen;
}
