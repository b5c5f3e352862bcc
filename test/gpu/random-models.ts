// Small models for tests of the GPU backend, with weights of several layouts, and steps over them.

import type { Backend, OutputRow, StepInput } from "../../src/backends/contract.js";
import { writeGguf } from "../../src/gguf/writer.js";
import { GgufLoader } from "../../src/loader/gguf-loader.js";
import { ExecutionPlan } from "../../src/plan/execution-plan.js";
import { randomModel, type RandomModelSpec } from "../conformance/models/random-model.js";

export const BLOCK_TOKENS = 16;
export const CONTEXT = 256;
export const VOCABULARY = 300;

export async function writeModel(path: string, changes: Partial<RandomModelSpec> = {}): Promise<void> {
  await writeGguf(
    path,
    randomModel({
      seed: 7,
      architecture: "llama",
      types: ["Q4_K", "Q6_K", "Q8_0"],
      width: 256,
      heads: 4,
      kvHeads: 2,
      feedForward: 512,
      layers: 2,
      vocabulary: VOCABULARY,
      context: CONTEXT,
      epsilon: 1e-5,
      ...changes,
    }),
  );
}

/** One token of each of `sequences`, all at one position, in blocks of their own. */
export function decodeStep(sequences: number, position: number): StepInput {
  const each = (value: (sequence: number) => number): Int32Array =>
    Int32Array.from({ length: sequences }, (_, sequence) => value(sequence));
  const blocks = CONTEXT / BLOCK_TOKENS / 4;
  return {
    tokens: each((sequence) => (sequence * 31 + position * 7) % VOCABULARY),
    positions: each(() => position),
    sequenceOffsets: Int32Array.from({ length: sequences + 1 }, (_, index) => index),
    blockTables: Array.from({ length: sequences }, (_, sequence) =>
      Int32Array.from({ length: blocks }, (_none, block) => sequence * blocks + block),
    ),
    outputs: Array.from({ length: sequences }, (_, row) => ({
      row,
      want: row % 2 === 0 ? ({ kind: "logits" } as const) : ({ kind: "candidates", count: 5 } as const),
    })),
  };
}

export function promptStep(tokens: number, first = 0): StepInput {
  const positions = Int32Array.from({ length: tokens }, (_, index) => first + index);
  return {
    tokens: positions.map((position) => (position * 13) % VOCABULARY),
    positions,
    sequenceOffsets: Int32Array.of(0, tokens),
    blockTables: [Int32Array.from({ length: CONTEXT / BLOCK_TOKENS }, (_, block) => block)],
    outputs: [{ row: tokens - 1, want: { kind: "logits" } }],
  };
}

export interface OpenedModel extends AsyncDisposable {
  readonly plan: ExecutionPlan;
  run(steps: readonly StepInput[]): Promise<(readonly OutputRow[])[]>;
}

export async function openModel(path: string, backend: Backend): Promise<OpenedModel> {
  const loader = await GgufLoader.open(path);
  const plan = ExecutionPlan.fromLoader(loader, backend, { contextTokens: CONTEXT, blockTokens: BLOCK_TOKENS });
  return {
    plan,
    async run(steps) {
      using cache = plan.createKvCache();
      const rows: (readonly OutputRow[])[] = [];
      for (const step of steps) rows.push(await plan.step(step, cache));
      return rows;
    },
    [Symbol.asyncDispose]: () => loader[Symbol.asyncDispose](),
  };
}
