// How matmul/sorted-gemv.hip is cut: as a grouped GEMV, but a block has a tile of slots, whose sums take registers too.

import type { ParametersOf } from "./kernel-families.js";

const USUAL_THREADS = 128;
/** Rows of a block: the columns of its results that share a scale. */
export const BLOCK_ROWS = 32;
/** Types of which gate and up of two rows would not stay in the registers of a thread: Q5_K and Q6_K. */
const LARGE_TYPES: ReadonlySet<number> = new Set([13, 14]);
/** Rows of a wave, of all matrices: each has a sum for every slot of the tile. */
const MAX_ROWS = 4;
/** Weight blocks on their way to a lane, of all its rows. */
const MAX_BLOCKS = 8;
const BLOCK_WEIGHTS = 32;

export interface SortedGemvRequest {
  readonly width: number;
  readonly gated: boolean;
  /** Types of the matrices, by their numbers in the file. */
  readonly types: readonly number[];
  readonly waveSize: 32 | 64;
}

export interface SortedGemvShape {
  readonly defines: Readonly<Record<"THREADS" | "ROWS" | "SPLIT" | "DEPTH" | "WIDTH", number>>;
  readonly passes: number;
}

export type SortedGemvParameters = ParametersOf<"sorted-gemv">;

/** What the formulas take. */
export function usualSortedGemvParameters({ gated, types }: SortedGemvRequest): SortedGemvParameters {
  const rows = gated && types.some((type) => LARGE_TYPES.has(type)) ? 1 : 2;
  return { rows, split: 1, depth: gated ? 1 : 2, threads: USUAL_THREADS };
}

/** Whether a launch can be cut so. */
export function isSortedGemvShape(request: SortedGemvRequest, parameters: SortedGemvParameters): boolean {
  const { width, gated, waveSize } = request;
  const { rows, split, depth, threads } = parameters;
  const allRows = rows * (gated ? 2 : 1);
  const isHeld = allRows <= MAX_ROWS && allRows * depth <= MAX_BLOCKS;
  const isSplitEvenly =
    Number.isInteger(threads / waveSize / split) && (split === 1 || width / BLOCK_WEIGHTS >= waveSize * split);
  return isHeld && isSplitEvenly && BLOCK_ROWS % passRows(request, parameters) === 0;
}

export function sortedGemvShape(request: SortedGemvRequest, parameters: SortedGemvParameters): SortedGemvShape {
  const { rows, split, depth, threads } = parameters;
  return {
    defines: { THREADS: threads, ROWS: rows, SPLIT: split, DEPTH: depth, WIDTH: request.width },
    passes: BLOCK_ROWS / passRows(request, parameters),
  };
}

function passRows({ waveSize }: SortedGemvRequest, { rows, split, threads }: SortedGemvParameters): number {
  return (threads / waveSize / split) * rows;
}
