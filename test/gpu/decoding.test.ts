// Steps of one token a sequence have attention of their own, which turns and stores on the way: its results are those of
// the same tokens in prompts, to the bit, whatever the cache is made of, however heads are shared among blocks, in
// whichever form the result leaves, and on both sides of a split's border.

import { describe, expect, it } from "vitest";
import type { KvCacheType, OutputRow, StepInput } from "../../src/backends/contract.js";
import type { RopeStyle } from "../../src/graph/operation.js";
import { hiddenOf, inputTable, type ProgramCase, randomWeight, runSteps } from "../conformance/harness.js";
import { describeEmulator } from "./emulator/build.js";
import { Dice } from "../support/dice.js";
import { FULL_RUN } from "../support/full-run.js";
import { openEmulated, type WaveSize } from "./emulated-hip.js";

const BLOCK_TOKENS = 16;
/** A sequence is this long, in blocks of its own. */
const SEQUENCE_TOKENS = 288;
const MATMUL_WIDTH = 32;

interface Case {
  readonly type: KvCacheType;
  readonly heads: number;
  readonly kvHeads: number;
  readonly keyWidth: number;
  readonly valueWidth: number;
  readonly rotaryWidth: number;
  readonly style: RopeStyle;
  /** Weights of the matmul after it, which has its say in the form; without one the result lies where its inputs did. */
  readonly matmul?: "F32" | "Q8_0";
}

/** Single heads and groups to a block, more heads than a block takes, columns that are no whole pieces, several batches. */
const CASES: readonly Case[] = [
  {
    type: "f16",
    heads: 4,
    kvHeads: 1,
    keyWidth: 128,
    valueWidth: 128,
    rotaryWidth: 128,
    style: "halves",
    matmul: "Q8_0",
  },
  { type: "f16", heads: 6, kvHeads: 3, keyWidth: 20, valueWidth: 7, rotaryWidth: 12, style: "adjacent" },
  {
    type: "f32",
    heads: 9,
    kvHeads: 1,
    keyWidth: 128,
    valueWidth: 64,
    rotaryWidth: 64,
    style: "halves",
    matmul: "F32",
  },
  {
    type: "q8_0",
    heads: 8,
    kvHeads: 4,
    keyWidth: 32,
    valueWidth: 96,
    rotaryWidth: 32,
    style: "adjacent",
    matmul: "Q8_0",
  },
  { type: "q8_0", heads: 20, kvHeads: 1, keyWidth: 64, valueWidth: 32, rotaryWidth: 64, style: "halves" },
];

function caseOf(
  { type, heads, kvHeads, keyWidth, valueWidth, rotaryWidth, style, matmul }: Case,
  spoilt?: number,
): ProgramCase {
  const dice = new Dice(heads * keyWidth + valueWidth);
  const [queryColumns, keyColumns] = [heads * keyWidth, kvHeads * keyWidth];
  const width = queryColumns + keyColumns + kvHeads * valueWidth;
  const inputs = inputTable(dice, width, SEQUENCE_TOKENS, 1.5);
  if (spoilt !== undefined)
    new Float32Array(inputs.data.buffer, inputs.data.byteOffset)[(spoilt + 1) * width - 1] = Number.POSITIVE_INFINITY;
  const outputs = { inputs: heads * valueWidth, outputs: MATMUL_WIDTH };
  return {
    vocabularySize: SEQUENCE_TOKENS,
    kv: { layers: 2, kvHeads, keyWidth, valueWidth },
    kvCacheType: type,
    blockTokens: BLOCK_TOKENS,
    blocks: (3 * SEQUENCE_TOKENS) / BLOCK_TOKENS,
    weights: {
      inputs,
      ...(matmul === undefined
        ? {}
        : { "matmul.weight": randomWeight(dice, matmul, [outputs.inputs, outputs.outputs]) }),
    },
    build: (graph) => {
      const input = graph.embed("inputs", width, SEQUENCE_TOKENS);
      const query = graph.columns(input, "query", 0, queryColumns);
      const key = graph.columns(input, "key", queryColumns, keyColumns);
      const value = graph.columns(input, "value", queryColumns + keyColumns, kvHeads * valueWidth);
      const rope = graph.ropeTable({
        ratio: Math.fround(0.8),
        stretches: Array.from({ length: rotaryWidth / 2 }, (_, pair) => 1 + pair / 7),
        magnitude: 1.25,
      });
      const turn = { headWidth: keyWidth, rotaryWidth, style, rope };
      const turned = [graph.rope(query, { heads, ...turn }), graph.rope(key, { heads: kvHeads, ...turn })] as const;
      const attended = graph.attention(...turned, value, {
        layer: 1,
        heads,
        kvHeads,
        keyWidth,
        valueWidth,
        scale: 1 / Math.sqrt(keyWidth),
      });
      return {
        hidden: graph.selectRows(
          matmul === undefined ? attended : graph.matmul(attended, "matmul", outputs),
          "outputs",
        ),
      };
    },
  };
}

interface Run {
  readonly sequence: number;
  readonly first: number;
  readonly count: number;
}

/** Runs of tokens, each of a sequence of its own; rows of `wanted` are asked for, or the last of each run. Ids are positions. */
function stepOf(runs: readonly Run[], wanted?: readonly number[]): StepInput {
  const positions = runs.flatMap(({ first, count }) => Array.from({ length: count }, (_, index) => first + index));
  const offsets = [0];
  for (const { count } of runs) offsets.push(offsets[offsets.length - 1] + count);
  const blocks = SEQUENCE_TOKENS / BLOCK_TOKENS;
  return {
    tokens: Int32Array.from(positions),
    positions: Int32Array.from(positions),
    sequenceOffsets: Int32Array.from(offsets),
    blockTables: runs.map(({ sequence }) =>
      Int32Array.from({ length: blocks }, (_, block) => sequence * blocks + block),
    ),
    outputs: (wanted ?? offsets.slice(1).map((end) => end - 1)).map((row) => ({ row, want: { kind: "hidden" } })),
  };
}

const one = (sequence: number, first: number): Run => ({ sequence, first, count: 1 });
const prompt = (sequence: number, first: number, end: number): Run => ({ sequence, first, count: end - first });

/** Of every step, the rows that were asked for. */
async function rowsOf(
  waveSize: WaveSize,
  wanted: ProgramCase,
  steps: readonly StepInput[],
): Promise<readonly (readonly OutputRow[])[]> {
  await using backend = openEmulated(waveSize, { deterministic: true });
  return await runSteps(backend, wanted, steps);
}

function numbersOf(rows: readonly OutputRow[]): Float32Array {
  return hiddenOf(
    rows,
    rows.reduce((most, row) => (row.kind === "hidden" ? row.values.length : most), 1),
  );
}

/** In pairs, of which the second reads what the first has stored: the beginning, both sides of splits' borders, three splits. */
const SINGLE_POSITIONS = [0, 1, 15, 16, 126, 127, 128, 129, 273, 274];

/** Those positions token by token, prompts between them. */
function mixedSteps(): readonly StepInput[] {
  return SINGLE_POSITIONS.flatMap((position, index) => {
    const first = index === 0 ? 0 : SINGLE_POSITIONS[index - 1] + 1;
    return [...(first < position ? [stepOf([prompt(0, first, position)], [])] : []), stepOf([one(0, position)])];
  });
}

/** Each type of cache that is packed, single heads and groups; the others take longest. */
const FEW_CASES = [CASES[0], CASES[1], CASES[3]];

/** All in full runs; otherwise every second one, so that each runs at one of the wave sizes. */
function casesOf(waveSize: WaveSize): readonly Case[] {
  return FULL_RUN ? CASES : FEW_CASES.filter((_, index) => index % 2 === (waveSize === 32 ? 0 : 1));
}

describeEmulator("decoding", () => {
  describe.each([32, 64] as const)("waves of %i", (waveSize) => {
    it.each(casesOf(waveSize))(
      "gives the bits of a prompt: $type, $heads heads over $kvHeads, $keyWidth and $valueWidth wide",
      async (shape) => {
        const wanted = caseOf(shape);
        const [expected] = await rowsOf(waveSize, wanted, [stepOf([prompt(0, 0, 275)], SINGLE_POSITIONS)]);
        const found = await rowsOf(waveSize, wanted, mixedSteps());
        expect(numbersOf(expected).every(Number.isFinite)).toBe(true);
        expect(numbersOf(found.flat())).toEqual(numbersOf(expected));
      },
    );

    it("gives the same bits in company", async () => {
      const wanted = caseOf(casesOf(waveSize)[0]);
      const lengths = [130, 1, 40];
      const prompts = lengths.map((length, sequence) => stepOf([prompt(sequence, 0, length)]));
      const decode = stepOf(lengths.map((length, sequence) => one(sequence, length - 1)));
      const [alone, together] = [
        await rowsOf(waveSize, wanted, prompts),
        await rowsOf(waveSize, wanted, [...prompts, decode]),
      ];
      expect(numbersOf(together[lengths.length])).toEqual(numbersOf(alone.flat()));
    });

    it.each(casesOf(waveSize).slice(0, 4))("makes no number of what the cache cannot hold: $type", async (shape) => {
      const wanted = caseOf(shape, 6);
      const steps = [stepOf([prompt(0, 0, 6)]), stepOf([one(0, 6), one(1, 0)]), stepOf([one(0, 7), one(1, 1)])];
      const kinds = (await rowsOf(waveSize, wanted, steps)).map((rows) => rows.map(({ kind }) => kind));
      expect(kinds).toEqual([["hidden"], ["not-finite", "hidden"], ["not-finite", "hidden"]]);
    });
  });
});
