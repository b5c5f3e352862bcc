// How matmul/expert-sum.hip is cut: rows a wave, weight blocks on their way to a lane. Nothing depends on the batch size.

import { roundUp } from "../memory/device-memory.js";
import { stagedBytes } from "./gemv-shape.js";
import type { ParametersOf } from "./kernel-families.js";

const THREADS = 256;
/** Every device gives a block this much dynamic shared memory unasked. */
const STAGED_LIMIT_BYTES = 44 << 10;
/** Waves on a multiprocessor that keep enough bytes on their way. */
const WAVES_WANTED = 12;
const BLOCK_WEIGHTS = 32;
/** Of the shared expert's inputs in shared memory. */
const ALIGNMENT_BYTES = 16;
/** Weight blocks on their way to a lane, of all its rows: more would take registers that other waves could have. */
const MAX_DEPTH = 6;

export interface ExpertSumRequest {
  readonly rows: number;
  readonly slots: number;
  /** Of a shared expert; 0 if there is none. */
  readonly sharedSlots: number;
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

/** Shared memory of a block, for the inputs of slots and shared slots; undefined if they do not fit. */
export function expertSumBytes(slots: number, sharedSlots: number, width: number): number | undefined {
  if (width % BLOCK_WEIGHTS !== 0) return undefined;
  const shared = sharedSlots === 0 ? 0 : stagedBytes(1, sharedSlots * width);
  const sizeBytes = roundUp(stagedBytes(1, slots * width), ALIGNMENT_BYTES) + shared;
  return sizeBytes <= STAGED_LIMIT_BYTES ? sizeBytes : undefined;
}

export type ExpertSumParameters = ParametersOf<"expert-sum">;

/** What the formulas take. */
export function usualExpertSumParameters(request: ExpertSumRequest): ExpertSumParameters {
  const { rows, slots, width, waveSize, multiprocessors } = request;
  const rowsTogether = rows >= 2 * WAVES_WANTED * multiprocessors * (32 / waveSize) ? 2 : 1;
  const sweeps = Math.ceil((slots * width) / BLOCK_WEIGHTS / waveSize);
  return { rows: rowsTogether, depth: depthOf(sweeps, MAX_DEPTH / rowsTogether) };
}

/** Undefined if the inputs of all slots do not fit the shared memory of a block. */
export function expertSumShape(
  request: ExpertSumRequest,
  parameters: ExpertSumParameters = usualExpertSumParameters(request),
): ExpertSumShape | undefined {
  const { rows, slots, sharedSlots, width, waveSize } = request;
  const sharedBytes = expertSumBytes(slots, sharedSlots, width);
  if (sharedBytes === undefined) return undefined;
  return {
    defines: { THREADS, ROWS: parameters.rows, DEPTH: parameters.depth, WIDTH: width },
    blocks: Math.ceil(rows / ((THREADS / waveSize) * parameters.rows)),
    sharedBytes,
  };
}

/** As many as fit, or fewer if that divides the sweeps evenly without a round more. */
function depthOf(sweeps: number, most: number): number {
  const rounds = Math.ceil(sweeps / most);
  return Math.ceil(sweeps / rounds);
}
