// Recurrent layers as cases: what an operation reads are columns of each token's input row.

import type { StepInput } from "../backends/contract.js";
import { kvShapeOf } from "../graph/program.js";
import { Dice } from "./dice.js";
import { floats, inputTable, type ProgramCase, randomWeight } from "./program-case.js";

/** Tokens of the input table: every token of a case has a row of its own. */
export const RECURRENT_ROWS = 200;
/** State slots of a case. */
export const RECURRENT_SLOTS = 6;
/** Sizes of a convolution. */
export interface ConvShape {
  readonly width: number;
  readonly taps: number;
  readonly bias: boolean;
  readonly silu: boolean;
  readonly type?: "F32" | "F16" | "BF16";
}

/** A convolution along sequences. */
export function createConvCase({ width, taps, bias, silu, type = "F32" }: ConvShape): ProgramCase {
  return {
    vocabularySize: RECURRENT_ROWS,
    kv: kvShapeOf([], [(taps - 1) * width]),
    stateSlots: RECURRENT_SLOTS,
    weights: {
      inputs: inputTable(new Dice(width), width, RECURRENT_ROWS),
      "conv.weight": randomWeight(new Dice(2), type, [taps, width]),
      ...(bias ? { "conv.bias": randomWeight(new Dice(3), "F32", [width]) } : {}),
    },
    build: (graph) => {
      const input = graph.embed("inputs", width, RECURRENT_ROWS);
      const biasWeight = graph.optionalVector("conv.bias", width);
      const out = graph.emit("conv", {
        kind: "causal-conv",
        state: 0,
        input,
        weight: graph.table("conv.weight", [taps, width]),
        ...(biasWeight === undefined ? {} : { bias: biasWeight }),
        ...(silu ? { activation: "silu" } : {}),
      });
      return { hidden: graph.selectRows(out, "outputs") };
    },
  };
}

/** The row of the token before, and the hidden state for the next step, as draft heads use them. */
export function createPreviousRowCase(width: number, reads: boolean): ProgramCase {
  return {
    vocabularySize: RECURRENT_ROWS,
    kv: kvShapeOf([], [5, width]),
    stateSlots: RECURRENT_SLOTS,
    weights: { inputs: inputTable(new Dice(width), width, RECURRENT_ROWS) },
    build: (graph) => {
      const input = graph.embed("inputs", width, RECURRENT_ROWS);
      const out = graph.emit("before", { kind: "previous-row", state: 1, width, ...(reads ? { input } : {}) });
      graph.stateWrite(1, input);
      return { hidden: graph.selectRows(out, "outputs") };
    },
  };
}

/** Sizes of a delta net. */
export interface DeltaNetShape {
  readonly keyHeads: number;
  readonly valueHeads: number;
  readonly headWidth: number;
  readonly order: "cyclic" | "grouped";
}

/** A state before that of the operation checks that each has its own place in a slot. */
export function createDeltaNetCase({ keyHeads, valueHeads, headWidth, order }: DeltaNetShape): ProgramCase {
  const mixed = (2 * keyHeads + valueHeads) * headWidth;
  const width = mixed + 2 * valueHeads;
  return {
    vocabularySize: RECURRENT_ROWS,
    kv: kvShapeOf([], [3, valueHeads * headWidth ** 2]),
    stateSlots: RECURRENT_SLOTS,
    weights: {
      inputs: inputTable(new Dice(width), width, RECURRENT_ROWS, 1.5),
      decay: floats(
        [valueHeads],
        Array.from({ length: valueHeads }, (_, head) => -0.03 * (1 + head * 3)),
      ),
      bias: randomWeight(new Dice(4), "F32", [valueHeads]),
    },
    build: (graph) => {
      const input = graph.embed("inputs", width, RECURRENT_ROWS);
      const out = graph.emit("delta net", {
        kind: "delta-net",
        state: 1,
        input: graph.columns(input, "mixed", 0, mixed),
        alpha: graph.columns(input, "alpha", mixed, valueHeads),
        beta: graph.columns(input, "beta", mixed + valueHeads, valueHeads),
        decay: graph.vector("decay", valueHeads),
        bias: graph.vector("bias", valueHeads),
        keyHeads,
        valueHeads,
        headWidth,
        keyHeadOrder: order,
        epsilon: 1e-6,
      });
      return { hidden: graph.selectRows(out, "outputs") };
    },
  };
}

/** Sizes of a scan. */
export interface ScanShape {
  readonly heads: number;
  readonly headWidth: number;
  readonly groups: number;
  readonly stateWidth: number;
}

/** The scan of Mamba-2. */
export function createScanCase({ heads, headWidth, groups, stateWidth }: ScanShape): ProgramCase {
  const mixed = heads * headWidth + 2 * groups * stateWidth;
  const width = mixed + heads;
  return {
    vocabularySize: RECURRENT_ROWS,
    kv: kvShapeOf([], [heads * headWidth * stateWidth]),
    stateSlots: RECURRENT_SLOTS,
    weights: {
      inputs: inputTable(new Dice(width), width, RECURRENT_ROWS),
      decay: floats(
        [1, heads],
        Array.from({ length: heads }, (_, head) => -0.05 * (1 + head)),
      ),
      bias: randomWeight(new Dice(5), "F32", [heads]),
      skip: randomWeight(new Dice(6), "F32", [1, heads]),
    },
    build: (graph) => {
      const input = graph.embed("inputs", width, RECURRENT_ROWS);
      const out = graph.emit("scan", {
        kind: "ssm-scan",
        state: 0,
        input: graph.columns(input, "mixed", 0, mixed),
        step: graph.columns(input, "step", mixed, heads),
        decay: graph.table("decay", [1, heads]),
        bias: graph.vector("bias", heads),
        skip: graph.table("skip", [1, heads]),
        heads,
        headWidth,
        groups,
        stateWidth,
      });
      return { hidden: graph.selectRows(out, "outputs") };
    },
  };
}

/** A sequence of a step: which tokens, from which position on, the slot that it reads, and slots that tokens write. */
export interface StateRun {
  readonly tokens: number;
  /** The first token's id; the ids of a run follow one another. */
  readonly first: number;
  readonly position?: number;
  readonly read?: number;
  /** By index in the run, negative from its end, the slot that gets the state. */
  readonly writes?: Readonly<Record<number, number>>;
}

/** A step of these runs with the hidden states of all tokens. */
export function stepOfRuns(runs: readonly StateRun[]): StepInput {
  const ids = runs.flatMap(({ first, tokens }) =>
    Array.from({ length: tokens }, (_, index) => (first + index) % RECURRENT_ROWS),
  );
  const offsets = [0];
  for (const { tokens } of runs) offsets.push((offsets.at(-1) ?? 0) + tokens);
  const stateWrites = new Int32Array(ids.length).fill(-1);
  for (const [sequence, { tokens, writes = {} }] of runs.entries())
    for (const [index, slot] of Object.entries(writes))
      stateWrites[offsets[sequence] + ((Number(index) + tokens) % tokens)] = slot;
  return {
    tokens: Int32Array.from(ids),
    positions: Int32Array.from(
      runs.flatMap(({ tokens, position = 0 }) => Array.from({ length: tokens }, (_, index) => position + index)),
    ),
    sequenceOffsets: Int32Array.from(offsets),
    blockTables: [],
    outputs: ids.map((_, row) => ({ row, want: { kind: "hidden" } })),
    stateReads: Int32Array.from(runs, ({ read = -1 }) => read),
    stateWrites,
  };
}

/** A step of one sequence that begins with zeros and keeps no state. */
export function withoutStates(step: StepInput): StepInput {
  return { ...step, stateReads: Int32Array.of(-1), stateWrites: new Int32Array(step.tokens.length).fill(-1) };
}

/** Short runs, then long ones in the middle of which states are wanted, and runs that continue from those. */
export function recurrentSteps(): readonly StepInput[] {
  return [
    stepOfRuns([{ tokens: 21, first: 0, writes: { [-1]: 0 } }]),
    stepOfRuns([
      { tokens: 1, first: 21, position: 21, read: 0, writes: { 0: 1 } },
      { tokens: 6, first: 40, writes: { [-1]: 2 } },
    ]),
    stepOfRuns([
      { tokens: 1, first: 60, position: 22, read: 1 },
      { tokens: 1, first: 61, position: 6, read: 2 },
    ]),
    // Runs that are long enough for kernels of prompts, with states in their middle, beside short ones.
    someOutputs(
      stepOfRuns([
        { tokens: 83, first: 70, position: 6, read: 2, writes: { 3: 3, 40: 4, [-1]: 2 } },
        { tokens: 9, first: 160, writes: { [-1]: 5 } },
        { tokens: 33, first: 22, position: 22, read: 1, writes: { 7: 1 } },
      ]),
    ),
    stepOfRuns([
      { tokens: 1, first: 153, position: 89, read: 2 },
      { tokens: 2, first: 74, position: 10, read: 3 },
      { tokens: 1, first: 111, position: 47, read: 4 },
      { tokens: 1, first: 30, position: 30, read: 1 },
      { tokens: 1, first: 169, position: 9, read: 5 },
    ]),
  ];
}

/** The step with every fourth output row. */
function someOutputs(step: StepInput): StepInput {
  return { ...step, outputs: step.outputs.filter((_, index) => index % 4 === 0) };
}
