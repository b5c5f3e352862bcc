// The operations with recurrent states as cases of the harness: everything that a token gives them is columns of its
// input row. The cache has states and no layers. Steps are written as the sequences of a step with their slots.

import type { StepInput } from "../../src/backends/contract.js";
import type { GraphBuilder } from "../../src/graph/builder.js";
import type { UnplacedOperation, ValueId } from "../../src/graph/operation.js";
import { kvShapeOf } from "../../src/graph/program.js";
import { Dice } from "../support/dice.js";
import { remembered } from "../support/remembered.js";
import { type CaseWeight, floats, inputTable, type ProgramCase, randomWeight } from "./harness.js";

/** Tokens have rows of their own up to this number. */
export const RECURRENT_TOKENS = 80;
export const STATE_SLOTS = 8;
const EPSILON = 1e-6;

export interface ConvShape {
  readonly columns: number;
  readonly taps: number;
  readonly bias?: boolean;
  readonly activation?: "silu";
}

export interface DeltaNetShape {
  readonly keyHeads: number;
  readonly valueHeads: number;
  readonly headWidth: number;
  readonly keyHeadOrder: "cyclic" | "grouped";
}

export interface SsmScanShape {
  readonly heads: number;
  readonly headWidth: number;
  readonly groups: number;
  readonly stateWidth: number;
}

/** A program case, and the width of its results. */
export interface RecurrentCase {
  readonly program: ProgramCase;
  readonly outWidth: number;
}

type RecurrentOperation = UnplacedOperation<"causal-conv" | "delta-net" | "ssm-scan" | "add">;

interface RecurrentParts {
  readonly outWidth: number;
  readonly state: number;
  readonly weights: Readonly<Record<string, CaseWeight>>;
  /** The widths of what the operation reads, one after the other. */
  readonly inputs: readonly number[];
  compute(graph: GraphBuilder, inputs: readonly ValueId[]): RecurrentOperation;
}

function recurrentCase({ outWidth, state, weights, inputs, compute }: RecurrentParts): RecurrentCase {
  const width = inputs.reduce((sum, columns) => sum + columns, 0);
  const program: ProgramCase = {
    vocabularySize: RECURRENT_TOKENS,
    // The operation's state is not the first: each has memory of its own.
    kv: kvShapeOf([], [3, state]),
    stateSlots: STATE_SLOTS,
    weights: { inputs: inputTable(new Dice(width), width, RECURRENT_TOKENS), ...weights },
    build: (graph) => {
      const all = graph.embed("inputs", width, RECURRENT_TOKENS);
      let first = 0;
      const parts = inputs.map((columns, index) => {
        first += columns;
        return graph.columns(all, `part ${index}`, first - columns, columns);
      });
      return { hidden: graph.selectRows(graph.emit("recurrent", compute(graph, parts)), "outputs") };
    },
  };
  return { program, outWidth };
}

export const convCase = remembered(({ columns, taps, bias = false, activation }: ConvShape): RecurrentCase => {
  const dice = new Dice(taps);
  return recurrentCase({
    outWidth: columns,
    state: (taps - 1) * columns,
    inputs: [columns],
    weights: {
      taps: randomWeight(dice, "F32", [taps, columns]),
      ...(bias ? { bias: randomWeight(dice, "F32", [columns]) } : {}),
    },
    compute: (graph, [input]) => ({
      kind: "causal-conv",
      state: 1,
      input,
      weight: graph.table("taps", [taps, columns]),
      ...(bias ? { bias: graph.vector("bias", columns) } : {}),
      ...(activation === undefined ? {} : { activation }),
    }),
  });
});

/** Between −exp(1) and −exp(−2): from states that are forgotten at once to those that are kept long. */
function decays(dice: Dice, heads: number): CaseWeight {
  return floats(
    [1, heads],
    Array.from({ length: heads }, () => -Math.exp(3 * dice.between(0, 1) - 2)),
  );
}

export const deltaNetCase = remembered((shape: DeltaNetShape): RecurrentCase => {
  const { keyHeads, valueHeads, headWidth } = shape;
  const dice = new Dice(headWidth);
  return recurrentCase({
    outWidth: valueHeads * headWidth,
    state: valueHeads * headWidth * headWidth,
    inputs: [(2 * keyHeads + valueHeads) * headWidth, valueHeads, valueHeads],
    weights: { decay: decays(dice, valueHeads), bias: randomWeight(dice, "F32", [valueHeads]) },
    compute: (graph, [input, alpha, beta]) => ({
      kind: "delta-net",
      state: 1,
      input,
      alpha,
      beta,
      decay: graph.table("decay", [1, valueHeads]),
      bias: graph.vector("bias", valueHeads),
      epsilon: EPSILON,
      ...shape,
    }),
  });
});

export const ssmScanCase = remembered((shape: SsmScanShape): RecurrentCase => {
  const { heads, headWidth, groups, stateWidth } = shape;
  const dice = new Dice(stateWidth);
  return recurrentCase({
    outWidth: heads * headWidth,
    state: heads * stateWidth * headWidth,
    inputs: [heads * headWidth + 2 * groups * stateWidth, heads],
    weights: {
      decay: decays(dice, heads),
      bias: randomWeight(dice, "F32", [heads]),
      skip: randomWeight(dice, "F32", [1, heads]),
    },
    compute: (graph, [input, step]) => ({
      kind: "ssm-scan",
      state: 1,
      input,
      step,
      decay: graph.table("decay", [1, heads]),
      bias: graph.vector("bias", heads),
      skip: graph.table("skip", [1, heads]),
      ...shape,
    }),
  });
});

/** Each token's row beside the one before it, or beside what the last step has left. */
export const previousRowCase = remembered((width: number, fromInput: boolean): RecurrentCase =>
  recurrentCase({
    outWidth: width,
    state: width,
    inputs: [width],
    weights: {},
    compute: (graph, [input]) => {
      const row = graph.scale(input, 0.5);
      // Reads the state before it is written: what is emitted last would read the new one.
      const before = graph.emit("before", {
        kind: "previous-row",
        state: 1,
        width,
        ...(fromInput ? { input: row } : {}),
      });
      graph.stateWrite(1, row);
      return { kind: "add", left: before, right: row };
    },
  }),
);

/** Tokens of one sequence in a step. */
export interface StepSequence {
  /** The first token, which is also its position. */
  readonly first: number;
  readonly tokens: number;
  /** The slot with the state before them; absent: zeros. */
  readonly read?: number;
  /** The slots that get the state, by the index of the token after which they do. */
  readonly writes?: Readonly<Record<number, number>>;
}

/** A step of these sequences, the hidden state of every token wanted. */
export function recurrentStep(sequences: readonly StepSequence[]): StepInput {
  const tokens: number[] = [];
  const writes: number[] = [];
  const offsets = [0];
  for (const { first, tokens: count, writes: slots = {} } of sequences) {
    for (let index = 0; index < count; index++) {
      tokens.push(first + index);
      writes.push(slots[index] ?? -1);
    }
    offsets.push(tokens.length);
  }
  return {
    tokens: Int32Array.from(tokens),
    positions: Int32Array.from(tokens),
    sequenceOffsets: Int32Array.from(offsets),
    blockTables: sequences.map(() => new Int32Array()),
    stateReads: Int32Array.from(sequences, ({ read = -1 }) => read),
    stateWrites: Int32Array.from(writes),
    outputs: tokens.map((_, row) => ({ row, want: { kind: "hidden" } })),
  };
}

/**
 * Prompts beside each other, checkpoints in the middle of them, decoding beside a prompt, several sequences that go on
 * from one checkpoint, drafts with a slot for each token, states that move to other slots, and states that nobody keeps.
 */
export const SERVING_STEPS: readonly StepInput[] = [
  [
    { first: 0, tokens: 37, writes: { 16: 1, 36: 0 } },
    { first: 0, tokens: 5, writes: { 4: 2 } },
  ],
  [
    { first: 37, tokens: 1, read: 0, writes: { 0: 0 } },
    { first: 5, tokens: 20, read: 2, writes: { 6: 3, 19: 2 } },
    { first: 0, tokens: 1, writes: { 0: 4 } },
  ],
  [
    { first: 17, tokens: 3, read: 1, writes: { 2: 5 } },
    { first: 17, tokens: 9, read: 1, writes: { 8: 6 } },
    { first: 17, tokens: 2, read: 1 },
    { first: 38, tokens: 1, read: 0, writes: { 0: 7 } },
    { first: 1, tokens: 1, read: 4 },
  ],
  [
    // The slot that is read is written in the middle, and another one at the end; and the other way round.
    { first: 25, tokens: 4, read: 2, writes: { 0: 1, 1: 2, 2: 0, 3: 3 } },
    { first: 26, tokens: 8, read: 6, writes: { 3: 6, 7: 4 } },
    { first: 20, tokens: 1, read: 5, writes: { 0: 5 } },
  ],
  [
    { first: 26, tokens: 3, read: 1, writes: { 2: 1 } },
    { first: 27, tokens: 2, read: 2, writes: { 1: 2 } },
    { first: 28, tokens: 1, read: 0, writes: { 0: 0 } },
    { first: 29, tokens: 1, read: 3, writes: { 0: 3 } },
    { first: 34, tokens: 1, read: 4 },
    { first: 30, tokens: 1, read: 6 },
    { first: 39, tokens: 1, read: 7 },
  ],
].map(recurrentStep);

/**
 * A sequence of `length` tokens in chunks of these sizes, in turn, its state in one slot. With `batchMates` tokens of
 * another sequence that begins anew before it in each step.
 */
export function chunkedSteps(length: number, sizes: readonly number[], batchMates = 0): readonly StepInput[] {
  const steps: StepInput[] = [];
  const mates: readonly StepSequence[] = batchMates === 0 ? [] : [{ first: 0, tokens: batchMates, writes: { 0: 5 } }];
  for (let first = 0, turn = 0; first < length; turn++) {
    const tokens = Math.min(length - first, sizes[turn % sizes.length]);
    const own = { first, tokens, writes: { [tokens - 1]: 0 }, ...(first === 0 ? {} : { read: 0 }) };
    const step = recurrentStep([...mates, own]);
    steps.push({ ...step, outputs: step.outputs.slice(batchMates) });
    first += tokens;
  }
  return steps;
}
