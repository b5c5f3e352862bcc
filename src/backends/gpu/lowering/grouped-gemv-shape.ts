// How matmul/grouped-gemv.hip and matmul/grouped-gemv-float.hip are cut for a stack of matrices: rows a wave, waves a row,
// rows a block. A block is of one slot of one token, so nothing here depends on the batch size.

import { stagedBytes } from "./gemv-shape.js";
import type { ParametersOf } from "./kernel-families.js";

/** Threads of a block: more than a GEMV has, because slots are short and their weights shall all be on their way. */
const USUAL_THREADS = 256;
/**
 * Of gate and up on cards with waves of 64 (CDNA), which have more multiprocessors than a token's experts have blocks: eight
 * waves, of four rows each where these are short.
 */
const WIDE_WAVE_THREADS = 512;
const WIDE_WAVE_ROWS = 4;
/** Of gate and up of MXFP4 with long rows, whose weights take longer to decode: smaller blocks wait less for one another. */
const LOOK_UP_THREADS = 128;
const LOOK_UP_TYPE = 39;
const LONG_SWEEPS = 2;
/** Output rows that one thread block writes as quantized rows: the columns that share a scale. */
const QUANTIZED_ROWS = 32;
/** Every device gives a block this much dynamic shared memory unasked. */
const STAGED_LIMIT_BYTES = 46 << 10;
const BLOCK_WEIGHTS = 32;
/** Waves on a multiprocessor that keep enough bytes on their way. */
const WAVES_WANTED = 12;

/** Weight blocks of a row that are on their way to a lane. */
const USUAL_DEPTH = 2;
const MAX_DEPTH = 3;
/** Types whose weight blocks take fewer or more registers than most: Q5_K; Q4_K, Q5_0, Q4_0 and MXFP4. */
const GATED_DEPTHS: ReadonlyMap<number, number> = new Map([
  [13, 1],
  [12, MAX_DEPTH],
  [6, MAX_DEPTH],
  [2, MAX_DEPTH],
  [39, MAX_DEPTH],
]);

export interface GroupedGemvRequest {
  /** Results of each slot. */
  readonly outputs: number;
  readonly slots: number;
  readonly width: number;
  readonly form: "plain" | "gated" | "gated to quantized rows";
  /** Types of the matrices, by their numbers in the file. */
  readonly types: readonly number[];
  /** matmul/grouped-gemv-float.hip instead of matmul/grouped-gemv.hip. */
  readonly floats: boolean;
  readonly waveSize: 32 | 64;
  readonly multiprocessors: number;
}

export interface GroupedGemvShape {
  readonly defines: Readonly<Record<string, number>>;
  readonly passes: number;
  /** Thread blocks of each slot. */
  readonly blocks: number;
  readonly sharedBytes: number;
}

export type GroupedGemvParameters = ParametersOf<"grouped-gemv">;

/** What the formulas take. */
export function usualGroupedGemvParameters(request: GroupedGemvRequest): GroupedGemvParameters {
  const { outputs, slots, width, form, types, waveSize, multiprocessors } = request;
  const sweepBlocks = Math.floor(width / BLOCK_WEIGHTS);
  const isLookedUp = form !== "plain" && types.every((type) => type === LOOK_UP_TYPE);
  const isWide = waveSize === 64 && form === "gated to quantized rows";
  const isLong = isLookedUp && sweepBlocks > LONG_SWEEPS * waveSize;
  const threads = isWide ? WIDE_WAVE_THREADS : isLong ? LOOK_UP_THREADS : USUAL_THREADS;
  const waves = threads / waveSize;
  const wavesWanted = WAVES_WANTED * multiprocessors * (32 / waveSize);
  const isShort = sweepBlocks <= waveSize;
  const rowsTogether = isWide && isShort ? WIDE_WAVE_ROWS : outputs * slots < wavesWanted * 2 ? 1 : 2;
  let split = 1;
  while (!isWide && split < waves && outputs * slots * split < wavesWanted && sweepBlocks >= waveSize * split * 2)
    split *= 2;
  const depth = form === "plain" ? USUAL_DEPTH : gatedDepth(types, sweepBlocks / (waveSize * split));
  return { rows: rowsTogether, split, depth, threads };
}

/** Whether a launch can be cut so. */
export function isGroupedGemvShape(
  { form, waveSize, width }: GroupedGemvRequest,
  { rows, split, threads }: GroupedGemvParameters,
): boolean {
  const teams = threads / waveSize / split;
  const isSplitEvenly = Number.isInteger(teams) && (split === 1 || width / BLOCK_WEIGHTS >= waveSize * split);
  return isSplitEvenly && (form !== "gated to quantized rows" || QUANTIZED_ROWS % (teams * rows) === 0);
}

export function groupedGemvShape(
  request: GroupedGemvRequest,
  parameters: GroupedGemvParameters = usualGroupedGemvParameters(request),
): GroupedGemvShape {
  const { outputs, width, form, floats, waveSize } = request;
  const { rows: rowsTogether, split, depth, threads } = parameters;
  const passRows = (threads / waveSize / split) * rowsTogether;
  const passes = form === "gated to quantized rows" ? Math.max(1, QUANTIZED_ROWS / passRows) : 1;
  const shared = floats ? 0 : stagedBytes(1, width);
  const staged = !floats && shared <= STAGED_LIMIT_BYTES;
  return {
    defines: {
      THREADS: threads,
      ROWS: rowsTogether,
      SPLIT: split,
      DEPTH: depth,
      // A model has few widths of experts, so that each may have a kernel of its own.
      ...(floats ? {} : { STAGED: staged ? 1 : 0, WIDTH: width }),
    },
    passes,
    blocks: Math.ceil(outputs / (passes * passRows)),
    sharedBytes: staged ? shared : 0,
  };
}

/**
 * A whole row if it fits: gate and up of two rows take four times the registers of a weight block. As ptxas says for sm_90,
 * where two blocks of 256 threads leave a thread 128 registers.
 */
function gatedDepth(types: readonly number[], sweeps: number): number {
  const most = types.reduce((least, type) => Math.min(least, GATED_DEPTHS.get(type) ?? USUAL_DEPTH), MAX_DEPTH);
  return Math.max(1, Math.min(most, Math.ceil(sweeps)));
}
