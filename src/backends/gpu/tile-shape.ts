// How product-tile.hip is cut for matrices, tokens and a device: blocks over rows and tokens, and over how many blocks
// the width of a row is split where there would be too few of them.

/** Tokens of one block, as TOKENS may be. */
export const TILE_TOKEN_COUNTS = [16, 32, 64, 128] as const;
export type TileTokens = (typeof TILE_TOKEN_COUNTS)[number];

const WAVES = 8;
const PIECE_WEIGHTS = 32;
/** Lane shares of a line (kernels/matrix-unit.h) where there are most. */
const MOST_SHARES = 4;
const PIECE_HALF_BYTES = 64;
/** Slabs that a split has at least: fewer only fill and drain. */
const LEAST_SLABS = 2;
/** Blocks on a multiprocessor at a time: those of many tokens take all its registers. */
const BLOCKS_WANTED: Readonly<Record<TileTokens, number>> = { 16: 2, 32: 2, 64: 1, 128: 1 };
/** Stages of input: three where copies run by themselves, one elsewhere. */
const STAGES = { cuda: 3, hip: 1 } as const;

export interface TileRequest {
  /** Of each matrix; of a gated launch the gate's alone. */
  readonly rows: readonly number[];
  readonly width: number;
  readonly gated: boolean;
  readonly waveSize: 32 | 64;
  readonly multiprocessors: number;
  readonly kind: keyof typeof STAGES;
  /** Blocks that there is memory for when rows are split. */
  readonly mostBlocks: number;
}

export interface TileShape {
  /** Along x, y and z of the grid. */
  readonly blocks: number;
  readonly tokenBlocks: number;
  readonly splits: number;
  /** Of input, as STAGES takes it. */
  readonly stages: number;
  readonly sharedBytes: number;
}

/** How the eight waves of a block lie: along tokens, along the width, and the rest along rows. */
function wavesOf(tile: TileTokens): { readonly depth: number; readonly rows: number } {
  const tokens = tile === 128 ? 2 : 1;
  const depth = tile <= 32 ? 4 : tile === 64 ? 2 : 1;
  return { depth, rows: WAVES / (tokens * depth) };
}

/** Two are enough where gate and up keep the units busy: 118 instead of 121 µs for 8B's at 64 tokens on an H200. */
function stagesOf(kind: keyof typeof STAGES, tile: TileTokens, gated: boolean): number {
  return gated && tile === 64 ? Math.min(2, STAGES[kind]) : STAGES[kind];
}

export function tileShape({ rows, width, gated, multiprocessors, kind, mostBlocks }: TileRequest, tile: TileTokens, tokens: number): TileShape {
  const waves = wavesOf(tile);
  const blockRows = waves.rows * (gated ? 16 : 32);
  const blocks = rows.reduce((sum, count) => sum + Math.ceil(count / blockRows), 0);
  const tokenBlocks = Math.ceil(tokens / tile);
  const slabPieces = waves.depth * MOST_SHARES;
  const slabs = Math.ceil(width / PIECE_WEIGHTS / slabPieces);
  const wanted = Math.floor((BLOCKS_WANTED[tile] * multiprocessors) / Math.max(1, blocks * tokenBlocks));
  const affordable = Math.floor(mostBlocks / Math.max(1, blocks * tokenBlocks));
  const splits = Math.max(1, Math.min(wanted, affordable, Math.floor(slabs / LEAST_SLABS)));
  const slabBytes = tile * slabPieces * PIECE_HALF_BYTES;
  const sumBytes = (waves.depth - 1) * waves.rows * 32 * tile * 4;
  const stages = stagesOf(kind, tile, gated);
  return { blocks, tokenBlocks, splits, stages, sharedBytes: Math.max(stages * slabBytes, sumBytes) };
}
