// Steps on which a fragment of a program is checked: as few tokens as take the kernels of a given step, deep in their
// sequences if that step is. Earlier positions are one block of the cache that a step before has filled, and that every
// sequence sees again and again. Pure data.

import type { OutputRequest, OutputWant, ProgramLimits, StepInput } from "../../contract.js";
import type { Fragment } from "../../../graph/fragments.js";
import type { LaunchSize } from "../lowering/launch.js";
import { MAX_SMALL_BATCH, MIN_BLAS_BATCH } from "../lowering/matmul-selection.js";
import { exactSize } from "../lowering/step-bucket.js";
import { SPLIT_POSITIONS, TILE_TOKENS } from "../memory/kv-layout.js";

/** Rows of a step whose results are compared. */
const MAX_COMPARED = 12;
/** Rows of all rounds together: a kernel that is wrong for some inputs alone shows in one of several. */
const MIN_COMPARED = 8;
/** Rows of a long step that depend on earlier ones are compared only up to this row: later ones take a CPU long. */
const MAX_SEQUENCE_ROWS = 96;
/** Batches that have kernels of their own, from the smallest on: see matmul-selection.ts. */
const BATCHES = [MAX_SMALL_BATCH + 1, 16, 33, 65, 130, MIN_BLAS_BATCH];
/** The block that all sequences read and none writes. */
const SHARED_BLOCK = 0;
const SHARED_SLOT = 0;

/** The size of a step for a check. */
export interface CheckShape {
  readonly tokens: number;
  /** Whether each token is a sequence of its own; otherwise all are one sequence. */
  readonly decoding: boolean;
  /** Position of the first token, a multiple of the block size. */
  readonly depth: number;
  readonly outputs: number;
}

/** The steps of a check. */
export interface CheckSteps {
  /** Fills the shared block and the shared state; absent if no sequence has earlier positions. */
  readonly before: StepInput | undefined;
  /** Steps of one shape with different tokens, until there are enough rows. */
  readonly rounds: readonly CheckRound[];
  /** The sizes of a round and of the step before. */
  readonly sizes: readonly LaunchSize[];
  readonly limits: ProgramLimits;
  /** Blocks and state slots of the cache. */
  readonly blocks: number;
  readonly stateSlots: number;
}

/** A step of a check. */
export interface CheckRound {
  readonly step: StepInput;
  /** The part of the step that its outputs depend on, for a slower backend. */
  readonly needed: StepInput;
}

/** Shapes that may take the kernels of a step of this size, the cheapest first. */
export function checkShapes(size: LaunchSize, { contextTokens, blockTokens }: ProgramLimits): readonly CheckShape[] {
  const decoding = size.longestRun === 1;
  const counts = [...BATCHES, size.tokens].filter((count) => count <= size.tokens);
  const distinct = [...new Set(counts)].sort((left, right) => left - right);
  const shapeOf = (tokens: number, first: number): CheckShape => {
    const last = Math.min(first, contextTokens - (decoding ? 1 : tokens));
    const depth = Math.max(0, Math.floor(last / blockTokens) * blockTokens);
    return { tokens, decoding, depth, outputs: Math.max(1, Math.min(size.outputs, tokens)) };
  };
  const longest = Math.max(size.longest, size.splits * SPLIT_POSITIONS - blockTokens + 1);
  const first = decoding ? Math.min(contextTokens, longest) - 1 : size.longest - size.longestRun;
  return distinct.map((tokens) => shapeOf(tokens, first));
}

/** Draws a number from 0 to just below 1. */
export type Draw = () => number;

/** The steps of a fragment for a shape, with the rows of its inputs drawn at random. */
export function checkSteps(fragment: Fragment, shape: CheckShape, limits: ProgramLimits, draw: Draw): CheckSteps {
  const { blockTokens, contextTokens } = limits;
  const { tokens, decoding } = shape;
  const sequences = decoding ? tokens : 1;
  const run = decoding ? 1 : tokens;
  const starts = Array.from({ length: sequences }, (_, sequence) => startOf(shape, sequence, sequences, blockTokens));
  const ownBlocks = Math.ceil(run / blockTokens);
  const rows = comparedRows(shape, fragment);
  const drawn = (count: number): Int32Array =>
    Int32Array.from({ length: count }, () => Math.floor(draw() * fragment.tokens));
  const isDeep = fragment.needsCache && starts.some((start) => start > 0);
  const round = (): StepInput => ({
    tokens: drawn(tokens),
    positions: Int32Array.from({ length: tokens }, (_, row) => (decoding ? starts[row] : starts[0] + row)),
    sequenceOffsets: Int32Array.from({ length: sequences + 1 }, (_, index) => index * run),
    blockTables: fragment.needsCache
      ? starts.map((start, sequence) => tableOf(start / blockTokens, 1 + sequence * ownBlocks, ownBlocks))
      : [],
    outputs: rows.map((row) => ({ row, want: HIDDEN })),
    ...(fragment.program.kv.states === undefined ? {} : states(starts, run)),
  });
  const rounds = Array.from({ length: Math.ceil(MIN_COMPARED / rows.length) }, round);
  const before = isDeep ? fillingStep(drawn(blockTokens), fragment) : undefined;
  const countTokens = Math.max(tokens, blockTokens);
  return {
    before,
    rounds: rounds.map((step) => ({ step, needed: neededPart(step, fragment) })),
    sizes: [rounds[0], ...(before === undefined ? [] : [before])].map((each) => sizeOf(each, fragment)),
    limits: { ...limits, contextTokens, maxTokens: countTokens, maxOutputs: rows.length, ignoreMemoryCheck: true },
    blocks: 1 + sequences * ownBlocks,
    stateSlots: 1 + sequences,
  };
}

const HIDDEN: OutputWant = { kind: "hidden" };

/** The same step with other wishes for all of its rows. */
export function wanting(step: StepInput, want: OutputWant): StepInput {
  return { ...step, outputs: step.outputs.map(({ row }): OutputRequest => ({ row, want })) };
}

/** The first sequence is as deep as the shape, the others are spread over what is before. */
function startOf({ depth }: CheckShape, sequence: number, sequences: number, blockTokens: number): number {
  return Math.floor((depth * (sequences - sequence)) / sequences / blockTokens) * blockTokens;
}

function tableOf(shared: number, firstOwn: number, ownBlocks: number): Int32Array {
  return Int32Array.from({ length: shared + ownBlocks }, (_, index) =>
    index < shared ? SHARED_BLOCK : firstOwn + index - shared,
  );
}

function states(starts: readonly number[], run: number): Pick<StepInput, "stateReads" | "stateWrites"> {
  return {
    stateReads: Int32Array.from(starts, (start) => (start > 0 ? SHARED_SLOT : -1)),
    stateWrites: Int32Array.from({ length: starts.length * run }, (_, row) =>
      row % run === run - 1 ? 1 + Math.floor(row / run) : -1,
    ),
  };
}

/** Fills the shared block, and the shared state slot with the states after it. */
function fillingStep(tokens: Int32Array, { program }: Fragment): StepInput {
  const last = tokens.length - 1;
  return {
    tokens,
    positions: Int32Array.from(tokens.keys()),
    sequenceOffsets: Int32Array.of(0, tokens.length),
    blockTables: [Int32Array.of(SHARED_BLOCK)],
    outputs: [{ row: last, want: HIDDEN }],
    ...(program.kv.states === undefined
      ? {}
      : {
          stateReads: Int32Array.of(-1),
          stateWrites: Int32Array.from(tokens, (_, row) => (row === last ? SHARED_SLOT : -1)),
        }),
  };
}

/** Without a cache, rows depend on themselves alone; with one, a sequence's rows do on those before them. */
function neededPart(step: StepInput, { needsCache }: Fragment): StepInput {
  if (step.sequenceOffsets.length > 2) return step;
  const rows = step.outputs.map(({ row }) => row);
  const last = rows[rows.length - 1];
  const kept = needsCache ? Array.from({ length: last + 1 }, (_, row) => row) : rows;
  const { stateWrites } = step;
  return {
    ...step,
    tokens: Int32Array.from(kept, (row) => step.tokens[row]),
    positions: needsCache ? step.positions.slice(0, last + 1) : Int32Array.from(kept.keys()),
    sequenceOffsets: Int32Array.of(0, kept.length),
    outputs: step.outputs.map(({ row, want }) => ({ row: kept.indexOf(row), want })),
    ...(stateWrites === undefined ? {} : { stateWrites: Int32Array.from(kept, (row) => stateWrites[row]) }),
  };
}

/** Rows spread over the step, the first and the last included; all of them are outputs if kernels depend on their number. */
function comparedRows({ tokens, outputs, decoding }: CheckShape, { program, needsCache }: Fragment): readonly number[] {
  const depends = program.values.some(({ rows }, id) => rows !== "tokens" && id !== program.hidden);
  const wanted = Math.min(tokens, depends ? outputs : MAX_COMPARED);
  const last = (decoding || !needsCache ? tokens : Math.min(tokens, MAX_SEQUENCE_ROWS)) - 1;
  const rows = Array.from({ length: wanted }, (_, index) =>
    wanted === 1 ? last : Math.round((index * last) / (wanted - 1)),
  );
  return [...new Set(rows)];
}

function sizeOf({ tokens, sequenceOffsets, positions, outputs }: StepInput, { program }: Fragment): LaunchSize {
  const runs = Array.from(sequenceOffsets.slice(1), (end, index) => end - sequenceOffsets[index]);
  return exactSize({
    tokens: tokens.length,
    sequences: runs.length,
    outputs: outputs.length,
    scored: program.logits === undefined ? 0 : outputs.length,
    tiles: runs.reduce((sum, run) => sum + Math.ceil(run / TILE_TOKENS), 0),
    longest: Math.max(...positions) + 1,
    longestRun: Math.max(...runs),
  });
}
