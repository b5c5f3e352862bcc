// How matmul/gemv.hip and matmul/gemv-float.hip are cut for a matrix and a device: rows a wave, waves a row, rows a
// block. What decides a row's bits (SPLIT) depends on the matrices and the device alone, never on how many tokens there
// are.

import type { ParametersOf } from "./kernel-families.js";

/** Threads of a block of waves of 32. */
export const THREADS = 128;
/**
 * Of a block of waves of 64 (CDNA): four again. Its cards have two to three times as many multiprocessors and little shared
 * memory on each, and what a block stages is the same for any number of waves.
 */
const WIDE_WAVE_THREADS = 256;
/** Output rows that one thread block writes as quantized rows: the columns that share a scale. */
const QUANTIZED_ROWS = 32;
/** Every device gives a block this much dynamic shared memory unasked. */
const STAGED_LIMIT_BYTES = 46 << 10;
/** Waves on a multiprocessor that keep enough bytes on their way. */
const WAVES_WANTED = 12;
/** More blocks than this on a multiprocessor only begin and end: each makes several passes instead. */
const BLOCKS_WANTED = 16;
const BLOCK_WEIGHTS = 32;
/** Rows for each wave that a card wants from which on a wave of 64 takes four at a time. */
const VOCABULARY_ROWS = 16;
/** Multiprocessors of cards of CDNA3 and CDNA4 (228 to 304); older ones have up to 120. */
const LARGE_CDNA = 200;
/** Columns from which two waves share a row. */
const LONG_ROW = 8192;

/** Weight blocks of a row that are on their way to a lane, at most. */
const MAX_DEPTH = 4;

/** Tokens that one block makes, as the kernels' names have them. */
export const TOKEN_BUCKETS = [1, 2, 4, 8] as const;
export type TokenBucket = (typeof TOKEN_BUCKETS)[number];

export interface GemvRequest {
  /** Of each matrix of the launch, up to three; of a gated launch the gate's alone. */
  readonly rows: readonly number[];
  readonly width: number;
  readonly form: "plain" | "gated" | "gated to quantized rows";
  /** matmul/gemv-float.hip instead of matmul/gemv.hip. */
  readonly floats: boolean;
  readonly waveSize: 32 | 64;
  readonly multiprocessors: number;
}

export type GemvParameters = ParametersOf<"gemv">;

export interface GemvShape {
  readonly defines: Readonly<Record<"THREADS" | "ROWS" | "SPLIT" | "DEPTH" | "STAGED" | "WIDTH", number>>;
  readonly passes: number;
  /** Of each matrix; their sum is the grid's x. Arguments blocks0 and blocks1 are the first two. */
  readonly blocks: readonly number[];
  /** Dynamic shared memory of a block. */
  readonly sharedBytes: number;
}

/** What the formulas take. `threads`: of a block, where rows shall go into fewer and larger ones; no row's bits depend on it. */
export function usualGemvParameters(
  { rows, width, form, floats, waveSize, multiprocessors }: GemvRequest,
  tokens: TokenBucket,
  threads = usualThreads(waveSize),
): GemvParameters {
  const waves = usualThreads(waveSize) / waveSize;
  const allRows = rows.reduce((sum, count) => sum + count, 0);
  const gated = form !== "plain";
  const wavesWanted = WAVES_WANTED * multiprocessors * (32 / waveSize);
  const isSmall = allRows < wavesWanted * 2;
  // Vocabularies: more rows for what is decoded and merged once for all of them.
  const isLarge = waveSize === 64 && allRows >= wavesWanted * VOCABULARY_ROWS && !floats;
  const isLongGated = gated && tokens === 1 && isShortOfSlots(waveSize, multiprocessors) && allRows >= wavesWanted;
  const rowsTogether =
    !floats && (isLongGated || (isLarge && !gated)) ? 4 : rowsTogetherFor(tokens, gated, isSmall, floats);
  const sweepBlocks = Math.floor(width / BLOCK_WEIGHTS);
  // A wave of 64 that shared a row of 4096 would have one weight block of it, and its sums to merge for that.
  let split = waveSize === 32 && (gated || width >= LONG_ROW) && sweepBlocks >= waveSize * 2 ? 2 : 1;
  while (
    split < waves &&
    (allRows / (isSmall && !gated ? 1 : 2)) * split < wavesWanted &&
    sweepBlocks >= waveSize * split * 2
  )
    split *= 2;
  // Plain floats take four registers for 16 bytes and none to decode them.
  const depth = floats && waveSize === 64 && tokens === 1 ? MAX_DEPTH : depthOf(tokens, gated, width, waveSize);
  return { rows: rowsTogether, split, depth, threads, blocks: BLOCKS_WANTED };
}

/**
 * CDNA3 and CDNA4 have the fewest issue slots for each byte of their bandwidth: gate and up take twice the rows at a time, with
 * half of the waves that would find room on a SIMD, which are still as many as a launch gives it.
 */
function isShortOfSlots(waveSize: 32 | 64, multiprocessors: number): boolean {
  return waveSize === 64 && multiprocessors >= LARGE_CDNA;
}

export function usualThreads(waveSize: 32 | 64): number {
  return waveSize === 64 ? WIDE_WAVE_THREADS : THREADS;
}

/** Whether a launch can be cut so. */
export function isGemvShape({ form, waveSize, width }: GemvRequest, parameters: GemvParameters): boolean {
  const { rows, split, threads } = parameters;
  const teams = threads / waveSize / split;
  const isSplitEvenly = Number.isInteger(teams) && (split === 1 || width / BLOCK_WEIGHTS >= waveSize * split);
  return isSplitEvenly && (form !== "gated to quantized rows" || QUANTIZED_ROWS % (teams * rows) === 0);
}

export function gemvShape(
  request: GemvRequest,
  tokens: TokenBucket,
  parameters: GemvParameters = usualGemvParameters(request, tokens),
): GemvShape {
  const { rows, width, form, floats, waveSize, multiprocessors } = request;
  const { rows: rowsTogether, split, depth, threads } = parameters;
  const allRows = rows.reduce((sum, count) => sum + count, 0);
  const passRows = (threads / waveSize / split) * rowsTogether;
  const passes =
    form === "gated to quantized rows"
      ? QUANTIZED_ROWS / passRows
      : Math.max(1, Math.floor(allRows / (passRows * parameters.blocks * multiprocessors)));
  const sharedBytes = floats ? 0 : stagedBytes(tokens, width);
  const hasOwnWidth = !floats || waveSize === 64;
  const staged = !floats && sharedBytes <= STAGED_LIMIT_BYTES;
  return {
    defines: {
      THREADS: threads,
      ROWS: rowsTogether,
      SPLIT: split,
      DEPTH: depth,
      STAGED: staged ? 1 : 0,
      // A kernel of its own for a width only where addresses become constants by it: all sweeps are whole.
      WIDTH: hasOwnWidth && width % (BLOCK_WEIGHTS * waveSize * split) === 0 ? width : 0,
    },
    passes,
    blocks: rows.map((count) => Math.ceil(count / (passes * passRows))),
    sharedBytes: staged ? sharedBytes : 0,
  };
}

/**
 * Rows that share what is read of the inputs: the more tokens, the more it pays. A gated wave streams a row of each matrix
 * already. As measured on an H200 with Q4_K and Q6_K.
 */
function rowsTogetherFor(tokens: TokenBucket, gated: boolean, isSmall: boolean, floats: boolean): number {
  if (isSmall && !gated) return 1;
  if (gated) return tokens === 1 || tokens === 8 ? 2 : 1;
  return tokens >= 4 && !floats ? 4 : 2;
}

/**
 * Every token has sums of its own in registers, which are then not there for weights on their way. For one token as
 * measured on an H200 with Q4_K and Q6_K: more only takes registers that other blocks could have.
 */
function depthOf(tokens: TokenBucket, gated: boolean, width: number, waveSize: 32 | 64): number {
  if (tokens > 1) return tokens === 2 ? 3 : gated ? 2 : 1;
  // Cards with waves of 64 hold fewer of them, and want more of their memory.
  if (gated) return waveSize === 64 ? 2 : 1;
  return width >= LONG_ROW ? MAX_DEPTH : 2;
}

/** The inputs of a block in shared memory: values, sums and scales. */
export function stagedBytes(tokens: number, width: number): number {
  return Math.ceil((tokens * width) / 64) * 64 + tokens * (width / 16 + width / 32) * 4;
}
