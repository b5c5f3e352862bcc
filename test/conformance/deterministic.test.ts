// Deterministic mode: a row's result is the same to the bit however its sequence is cut into steps, whoever shares the
// step, and however many threads compute.

import { existsSync } from "node:fs";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { Backend, KvCacheType, OutputRow, StepInput } from "../../src/backends/contract.js";
import { writeGguf } from "../../src/gguf/writer.js";
import { GgufLoader } from "../../src/loader/gguf-loader.js";
import { ExecutionPlan } from "../../src/plan/execution-plan.js";
import type { SupportedTypeName } from "../../src/quant/layout.js";
import { randomModel, randomTokens } from "./models/random-model.js";
import { TemporaryFolder } from "../support/temporary-folder.js";
import { describeSubjects, type Subject } from "./subjects.js";

const CONTEXT = 640;
const BLOCK_TOKENS = 16;
const TOKENS = randomTokens(11, 560);
const WATCHED = [0, 1, 7, 8, 31, 32, 200, 511, 512, 559];

const folder = new TemporaryFolder();
afterAll(() => folder[Symbol.dispose]());

/** All types between them, and every kind of cache. */
const MODELS: readonly { readonly kvCacheType: KvCacheType; readonly types: readonly SupportedTypeName[] }[] = [
  { kvCacheType: "f16", types: ["Q4_K", "Q6_K", "Q8_0", "Q4_0", "F16", "Q5_1", "IQ4_XS"] },
  { kvCacheType: "q8_0", types: ["Q2_K", "Q3_K", "Q5_K", "Q4_1", "BF16", "Q5_0"] },
  { kvCacheType: "f32", types: ["IQ4_NL", "TQ1_0", "TQ2_0", "MXFP4", "NVFP4", "F32"] },
];
const FEW_MODELS: typeof MODELS = [{ kvCacheType: "f16", types: ["Q4_K", "Q6_K"] }];
const modelsOf = (subject: Subject): typeof MODELS => subject.inTurn(MODELS, FEW_MODELS);
/** Of one model, those that the subject computes with. */
const typesOf = (subject: Subject, types: readonly SupportedTypeName[]): readonly SupportedTypeName[] =>
  types.filter((type) => subject.types.some(({ name }) => name === type));
/** One file for all who compute with the same types. */
const pathOf = (subject: Subject, { kvCacheType, types }: (typeof MODELS)[number]): string =>
  folder.file(`${[kvCacheType, ...typesOf(subject, types)].join("-")}.gguf`);

async function writeModels(subject: Subject): Promise<void> {
  for (const model of modelsOf(subject)) {
    const path = pathOf(subject, model);
    if (existsSync(path)) continue;
    await writeGguf(
      path,
      randomModel({
        seed: 21,
        architecture: "qwen2",
        types: typesOf(subject, model.types),
        width: 256,
        heads: 8,
        kvHeads: 2,
        feedForward: 512,
        layers: 2,
        vocabulary: 300,
        context: CONTEXT,
        epsilon: 1e-5,
        biases: ["attn_q", "attn_k", "attn_v"],
      }),
    );
  }
}

interface Watched {
  readonly path: string;
  readonly kvCacheType: KvCacheType;
  readonly length: number;
}

/** Feeds the sequence in chunks of the given sizes, in turn, and returns the logits of the watched positions. */
async function watchedLogits(
  backend: Backend,
  { path, kvCacheType, length }: Watched,
  sizes: readonly number[],
  batchMates = 0,
): Promise<ReadonlyMap<number, Float32Array>> {
  await using loader = await GgufLoader.open(path);
  const plan = ExecutionPlan.fromLoader(loader, backend, {
    contextTokens: CONTEXT,
    blockTokens: BLOCK_TOKENS,
    kvCacheType,
  });
  using cache = plan.createKvCache(CONTEXT * 2);
  const found = new Map<number, Float32Array>();
  for (let start = 0, turn = 0; start < length; turn++) {
    const end = Math.min(length, start + sizes[turn % sizes.length]);
    const rows = await plan.step(stepOf(start, end, batchMates), cache);
    const watched = WATCHED.filter((position) => position >= start && position < end);
    for (const [index, position] of watched.entries()) found.set(position, logitsOf(rows[index]));
    start = end;
  }
  return found;
}

/** `batchMates` tokens of another sequence come along and stand first, always its first ones, in blocks of its own. */
function stepOf(start: number, end: number, batchMates: number): StepInput {
  const own = end - start;
  const positions = Array.from({ length: own }, (_, index) => start + index);
  const others = Array.from({ length: batchMates }, (_, index) => index);
  const block = (first: number, count: number): Int32Array =>
    Int32Array.from({ length: Math.ceil(count / BLOCK_TOKENS) }, (_, index) => first + index);
  return {
    tokens: Int32Array.from([...others.map((index) => TOKENS[index * 3]), ...TOKENS.subarray(start, end)]),
    positions: Int32Array.from([...others, ...positions]),
    sequenceOffsets: batchMates === 0 ? Int32Array.of(0, own) : Int32Array.of(0, batchMates, batchMates + own),
    blockTables: [...(batchMates === 0 ? [] : [block(CONTEXT / BLOCK_TOKENS, batchMates)]), block(0, end)],
    outputs: WATCHED.filter((position) => position >= start && position < end).map((position) => ({
      row: batchMates + position - start,
      want: { kind: "logits" },
    })),
  };
}

function logitsOf(row: OutputRow): Float32Array {
  if (row.kind !== "logits") throw new Error(`expected logits, found ${row.kind}`);
  return row.logits;
}

describeSubjects(
  (subject) => {
    beforeAll(() => writeModels(subject));

    it.each(modelsOf(subject))(
      "gives the same bits in steps of 1, 8, 9, 512 and mixed tokens, in batchMates, on one to three threads, with $kvCacheType",
      async (model) => {
        const { kvCacheType } = model;
        // Past the border of what attention looks at in one piece in any case.
        const [length] = subject.cases([TOKENS.length], [210]);
        const watched = { path: pathOf(subject, model), kvCacheType, length };
        await using alone = subject.create({ deterministic: true, threads: 1 });
        const expected = await watchedLogits(alone, watched, [512]);
        expect([...expected.keys()]).toEqual(WATCHED.filter((position) => position < length));
        const ways: readonly {
          readonly sizes: readonly number[];
          readonly batchMates?: number;
          readonly threads: number;
        }[] = [
          { sizes: [1], threads: 2 },
          { sizes: [8], threads: 2 },
          { sizes: [9], threads: 3 },
          { sizes: [512], threads: 2 },
          { sizes: [3, 40, 1, 17, 130, 2], threads: 2 },
          { sizes: [1, 7, 100], batchMates: 12, threads: 3 },
        ];
        for (const { sizes, batchMates, threads } of subject.cases(ways, ways.slice(-1))) {
          await using backend = subject.create({ deterministic: true, threads });
          const found = await watchedLogits(backend, watched, sizes, batchMates);
          for (const [position, logits] of expected) {
            expect(found.get(position), `position ${position} in steps of ${sizes.join(", ")}`).toEqual(logits);
          }
        }
      },
    );
  },
  { waveSize: 32 },
);
