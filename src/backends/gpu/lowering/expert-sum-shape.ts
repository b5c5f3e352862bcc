// How matmul/expert-sum.hip is cut: rows a wave, weight blocks on their way to a lane. Nothing depends on the batch size.

import { stagedBytes } from "./gemv-shape.js";

const THREADS = 256;
/** Every device gives a block this much dynamic shared memory unasked. */
const STAGED_LIMIT_BYTES = 44 << 10;
/** Waves on a multiprocessor that keep enough bytes on their way. */
const WAVES_WANTED = 12;
const BLOCK_WEIGHTS = 32;
/** Weight blocks on their way to a lane, of all its rows: more would take registers that other waves could have. */
const MAX_DEPTH = 6;

export interface ExpertSumRequest {
  readonly rows: number;
  readonly slots: number;
  /** Columns of a slot. */
  readonly width: number;
  readonly waveSize: 32 | 64;
  readonly multiprocessors: number;
}

export interface ExpertSumShape {
  readonly defines: Readonly<Record<"THREADS" | "ROWS" | "DEPTH" | "WIDTH", number>>;
  readonly blocks: number;
  readonly sharedBytes: number;
}

/** Undefined if the inputs of all slots do not fit the shared memory of a block. */
export function expertSumShape(request: ExpertSumRequest): ExpertSumShape | undefined {
  const { rows, slots, width, waveSize, multiprocessors } = request;
  const sharedBytes = stagedBytes(1, slots * width);
  if (width % BLOCK_WEIGHTS !== 0 || sharedBytes > STAGED_LIMIT_BYTES) return undefined;
  const rowsTogether = rows >= 2 * WAVES_WANTED * multiprocessors * (32 / waveSize) ? 2 : 1;
  const sweeps = Math.ceil((slots * width) / BLOCK_WEIGHTS / waveSize);
  return {
    defines: { THREADS, ROWS: rowsTogether, DEPTH: depthOf(sweeps, MAX_DEPTH / rowsTogether), WIDTH: width },
    blocks: Math.ceil(rows / ((THREADS / waveSize) * rowsTogether)),
    sharedBytes,
  };
}

/** As many as fit, or fewer if that divides the sweeps evenly without a round more. */
function depthOf(sweeps: number, most: number): number {
  const rounds = Math.ceil(sweeps / most);
  return Math.ceil(sweeps / rounds);
}
