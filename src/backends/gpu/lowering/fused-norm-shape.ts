// Matmuls that norm and round their input themselves (kernels/matmul/normed-row.h), which spares single tokens a launch
// that is latency and little else: when they may, and how they are cut. Every block does it anew, so blocks should be
// few.

import {
  type GemvParameters,
  type GemvRequest,
  type GemvShape,
  gemvShape,
  isGemvShape,
  type TokenBucket,
  usualGemvParameters,
  usualThreads,
} from "./gemv-shape.js";

/** Rows of steps that take this way; 0 leaves norms to launches of their own. */
export const MAX_NORMED_ROWS = 1;
/** Of a row, in a thread's registers. */
export const MAX_QUADS = 8;
const QUAD_COLUMNS = 4;
const LARGE_BLOCK_THREADS = 256;
/** What shares a scale. */
const BLOCK_COLUMNS = 32;
/** Blocks on a multiprocessor from which on rows go into fewer and larger ones. */
const MANY_BLOCKS = 4;

export interface NormedShape extends GemvShape {
  readonly defines: GemvShape["defines"] & { readonly NORMED: number };
}

export function canBeNormed(width: number): boolean {
  return width % BLOCK_COLUMNS === 0 && width <= LARGE_BLOCK_THREADS * MAX_QUADS * QUAD_COLUMNS;
}

/** What the formulas take, for a width that can be normed. */
export function usualNormedParameters(request: GemvRequest, tokens: TokenBucket): GemvParameters {
  const { width, form, multiprocessors, waveSize } = request;
  const threads = usualThreads(waveSize);
  const usual = gemvShape(request, tokens);
  const blocks = usual.blocks.reduce((sum, count) => sum + count, 0);
  // A gated block has as many rows as share a scale, whatever its size.
  const isLarge =
    (form === "plain" && blocks > MANY_BLOCKS * multiprocessors) || width > threads * MAX_QUADS * QUAD_COLUMNS;
  return usualGemvParameters(request, tokens, isLarge ? LARGE_BLOCK_THREADS : threads);
}

/** Whether a launch can be cut so. */
export function isNormedShape(request: GemvRequest, parameters: GemvParameters): boolean {
  return isGemvShape(request, parameters) && normedQuads(request.width, parameters.threads) <= MAX_QUADS;
}

/** For a width that can be normed. */
export function normedShape(
  request: GemvRequest,
  tokens: TokenBucket,
  parameters: GemvParameters = usualNormedParameters(request, tokens),
): NormedShape {
  const shape = gemvShape(request, tokens, parameters);
  return { ...shape, defines: { ...shape.defines, NORMED: normedQuads(request.width, parameters.threads) } };
}

/** Quads of a row that each thread of a block norms: NORMED of kernels/matmul/normed-row.h. */
export function normedQuads(width: number, threads: number): number {
  return Math.ceil(width / (threads * QUAD_COLUMNS));
}
