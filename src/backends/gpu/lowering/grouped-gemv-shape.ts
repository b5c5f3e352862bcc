// How matmul/grouped-gemv.hip and matmul/grouped-gemv-float.hip are cut for a stack of matrices: rows a wave, waves a row,
// rows a block. A block is of one slot of one token, so nothing here depends on the batch size.

import { stagedBytes } from "./gemv-shape.js";

/** Threads of a block: more than a GEMV has, because slots are short and their weights shall all be on their way. */
const THREADS = 256;
/** Output rows that one thread block writes as quantized rows: the columns that share a scale. */
const QUANTIZED_ROWS = 32;
/** Every device gives a block this much dynamic shared memory unasked. */
const STAGED_LIMIT_BYTES = 46 << 10;
const BLOCK_WEIGHTS = 32;
/** Waves on a multiprocessor that keep enough bytes on their way. */
const WAVES_WANTED = 12;

export interface GroupedGemvRequest {
  /** Results of each slot. */
  readonly outputs: number;
  readonly slots: number;
  readonly width: number;
  readonly form: "plain" | "gated" | "gated to quantized rows";
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

export function groupedGemvShape(request: GroupedGemvRequest): GroupedGemvShape {
  const { outputs, slots, width, form, floats, waveSize, multiprocessors } = request;
  const waves = THREADS / waveSize;
  const wavesWanted = WAVES_WANTED * multiprocessors * (32 / waveSize);
  const sweepBlocks = Math.floor(width / BLOCK_WEIGHTS);
  const rowsTogether = outputs * slots < wavesWanted * 2 ? 1 : 2;
  let split = 1;
  while (split < waves && outputs * slots * split < wavesWanted && sweepBlocks >= waveSize * split * 2) split *= 2;
  const passRows = (waves / split) * rowsTogether;
  const passes = form === "gated to quantized rows" ? Math.max(1, QUANTIZED_ROWS / passRows) : 1;
  const shared = floats ? 0 : stagedBytes(1, width);
  const staged = !floats && shared <= STAGED_LIMIT_BYTES;
  return {
    defines: {
      THREADS,
      ROWS: rowsTogether,
      SPLIT: split,
      DEPTH: 2,
      ...(floats
        ? {}
        : { STAGED: staged ? 1 : 0, WIDTH: width % (BLOCK_WEIGHTS * waveSize * split) === 0 ? width : 0 }),
    },
    passes,
    blocks: Math.ceil(outputs / (passes * passRows)),
    sharedBytes: staged ? shared : 0,
  };
}
