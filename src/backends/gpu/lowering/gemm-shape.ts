// How matmul/gemm.hip and matmul/int8-gemm.hip are cut for matrices, tokens and a device: waves of a block along rows and along the width, blocks
// over rows and tokens, and over how many blocks the width of a row is split where there would be too few of them.

import type { ParametersOf } from "./kernel-families.js";

/** Tokens of one block, as TOKENS may be. */
export const TILE_TOKEN_COUNTS = [16, 32, 64, 128] as const;
export type TileTokens = (typeof TILE_TOKEN_COUNTS)[number];

const BLOCK_WEIGHTS = 32;
/** Lane shares of a line (kernels/device/matrix-unit.h) where there are most. */
const MAX_SHARES = 4;
/** A block of 32 columns as halves; and as bytes with its scale and sum. */
const BLOCK_HALF_BYTES = 64;
const BLOCK_INT8_BYTES = 40;
const TILE_ROWS = 16;
/** Slabs that a split has at least: fewer only fill and drain. */
const MIN_SLABS = 2;
/** Of a block: more would have too few registers each. */
const MAX_WAVES = 16;
/** Of a block: fewer do not bring its input. */
const MIN_BLOCK_WAVES = 2;
/** What a block may share: on AMD what every card has. */
const MAX_SHARED_BYTES = { cuda: 100 << 10, hip: 48 << 10 } as const;
/**
 * What a block's time is made of, in the time that a multiprocessor takes for one tile of rows and one wave's share of a
 * slab: the input that every block brings for itself, waiting for each slab, and sums of splits that one block adds up. As
 * measured on an H200 with Q4_K at 16 and 64 tokens, for nine matrices of three models.
 */
interface TileCosts {
  readonly input: number;
  readonly slab: number;
  readonly split: number;
  /** With fewer of them a block leaves its multiprocessor waiting. */
  readonly minWaves: number;
}
const FEW_TOKENS: TileCosts = { input: 4, slab: 8, split: 1 / 3, minWaves: 12 };
const COSTS: Readonly<Record<Exclude<TileTokens, 128>, TileCosts>> = {
  16: FEW_TOKENS,
  32: FEW_TOKENS,
  64: { input: 4, slab: 0, split: 1 / 5, minWaves: 6 },
};
/** Beginning and ending of a block. */
const BLOCK_COST = 24;
/** Stages of input: three where copies run by themselves, one elsewhere. */
const STAGES = { cuda: 3, hip: 1 } as const;

export interface GemmRequest {
  /** Of each matrix; of a gated launch the gate's alone. */
  readonly rows: readonly number[];
  readonly width: number;
  readonly gated: boolean;
  readonly multiprocessors: number;
  readonly kind: keyof typeof STAGES;
  /** Blocks that there is memory for when rows are split. */
  readonly mostBlocks: number;
  /** Whether the products are of bytes (matmul/int8-gemm.hip), whose waves have registers for 16 rows only. Absent: no. */
  readonly isInt8?: boolean;
}

/** The waves of a block, as the kernel's defines have them. */
export interface TileWaves {
  /** Tiles of 16 rows that a wave has. */
  readonly halves: 1 | 2;
  readonly rows: number;
  readonly depth: number;
  readonly tokens: number;
}

export interface GemmShape {
  readonly waves: TileWaves;
  /** Along x, y and z of the grid. */
  readonly blocks: number;
  readonly tokenBlocks: number;
  readonly splits: number;
  /** Of input, as STAGES takes it. */
  readonly stages: number;
  readonly sharedBytes: number;
}

export type GemmParameters = ParametersOf<"gemm">;

/** Long steps have work for every multiprocessor: each wave does as much as its registers hold. */
const LARGE_TILE: TileWaves = { halves: 2, rows: 4, depth: 1, tokens: 2 };
const LARGE_INT8_TILE: TileWaves = { ...LARGE_TILE, halves: 1, rows: 8 };

export function waveCount({ rows, depth, tokens }: TileWaves): number {
  return rows * depth * tokens;
}

/** A model's layers are alike, and so are its plans. */
const searched = new Map<string, TileWaves>();
const MAX_SEARCHED = 4096;

/** The waves of a block for steps of one tile of tokens. To be asked once for a launch: it takes a search. */
export function gemmWaves(request: GemmRequest, tile: TileTokens): TileWaves {
  const { rows, width, gated, multiprocessors, kind, mostBlocks, isInt8 = false } = request;
  if (tile === 128) return isInt8 ? LARGE_INT8_TILE : LARGE_TILE;
  const key = `${tile} ${rows.join(",")} ${width} ${gated} ${multiprocessors} ${kind} ${mostBlocks} ${isInt8}`;
  const known = searched.get(key);
  if (known !== undefined) return known;
  const waves = bestWaves(request, tile);
  if (searched.size >= MAX_SEARCHED) searched.clear();
  searched.set(key, waves);
  return waves;
}

/** What the formulas take for steps of one tile of tokens. */
export function usualGemmParameters(request: GemmRequest, tile: TileTokens): GemmParameters {
  const waves = gemmWaves(request, tile);
  const { halves, rows, depth } = waves;
  return { halves, rows, depth, splits: splitsOf(request, waves, blocksOf(request, waves)) };
}

/** Whether a launch can be cut so. */
export function isGemmShape(request: GemmRequest, tile: TileTokens, parameters: GemmParameters): boolean {
  const waves = tileWaves(tile, parameters);
  const { halves, rows, depth, splits } = parameters;
  const isWhole = !request.gated || halves === 2 || rows % 2 === 0;
  if (!isWhole || (request.isInt8 === true && halves === 2)) return false;
  if (waveCount(waves) * halves > MAX_WAVES || waveCount(waves) < MIN_BLOCK_WAVES) return false;
  const { blocks, sharedBytes } = gemmShape(request, tile, tile, waves);
  const isSplit =
    splits === 1 || (blocks * splits <= request.mostBlocks && splits * MIN_SLABS <= slabsOf(request, waves));
  // A depth of its own has sums of its own.
  return (
    isSplit && sharedBytes <= MAX_SHARED_BYTES[request.kind] && depth * MAX_SHARES * BLOCK_WEIGHTS <= request.width
  );
}

/** The waves of a block that is cut so. */
export function tileWaves(tile: TileTokens, { halves, rows, depth }: GemmParameters): TileWaves {
  return { halves: halves === 2 ? 2 : 1, rows, depth, tokens: tile === 128 ? LARGE_TILE.tokens : 1 };
}

/** `splits`: of a step of one tile of tokens; the formula's if absent. */
export function gemmShape(
  request: GemmRequest,
  tile: TileTokens,
  tokens: number,
  waves: TileWaves = gemmWaves(request, tile),
  splits?: number,
): GemmShape {
  const { kind } = request;
  const tokenBlocks = Math.ceil(tokens / tile);
  const blocks = blocksOf(request, waves);
  const blockBytes = request.isInt8 === true ? BLOCK_INT8_BYTES : BLOCK_HALF_BYTES;
  const slabBytes = tile * waves.depth * MAX_SHARES * blockBytes;
  const sumBytes =
    Math.max(waves.depth - 1, request.gated ? 0.5 : 0) * waves.rows * waves.halves * TILE_ROWS * tile * 4;
  const stages = STAGES[kind];
  return {
    waves,
    blocks,
    tokenBlocks,
    splits: splits !== undefined && tokenBlocks === 1 ? splits : splitsOf(request, waves, blocks * tokenBlocks),
    stages,
    sharedBytes: Math.max(stages * slabBytes, sumBytes),
  };
}

function blocksOf({ rows, gated }: GemmRequest, waves: TileWaves): number {
  const blockRows = (waves.rows * waves.halves * TILE_ROWS) / (gated ? 2 : 1);
  return rows.reduce((sum, count) => sum + Math.ceil(count / blockRows), 0);
}

function slabsOf({ width }: GemmRequest, { depth }: TileWaves): number {
  return Math.ceil(width / BLOCK_WEIGHTS / (depth * MAX_SHARES));
}

function splitsOf(request: GemmRequest, waves: TileWaves, blocks: number): number {
  const wanted = Math.floor(request.multiprocessors / Math.max(1, blocks));
  const affordable = Math.floor(request.mostBlocks / Math.max(1, blocks));
  return Math.max(1, Math.min(wanted, affordable, Math.floor(slabsOf(request, waves) / MIN_SLABS)));
}

/**
 * The waves with which the last multiprocessor is done first, for steps of one tile of tokens; of equals, most waves. Gate
 * and up of many tokens have 32 rows a wave, which halves what is read of the input in shared memory, if they are halves.
 */
function bestWaves(request: GemmRequest, tile: Exclude<TileTokens, 128>): TileWaves {
  const halves = request.gated && tile === 64 && request.isInt8 !== true ? 2 : 1;
  const step = request.gated && halves === 1 ? 2 : 1;
  let best: TileWaves = { halves, rows: step, depth: 1, tokens: 1 };
  let bestCost = Infinity;
  for (const depth of tile === 64 ? [2, 1] : [4, 2, 1]) {
    for (let rows = step; rows * depth * halves <= MAX_WAVES; rows += step) {
      if (rows * depth < COSTS[tile].minWaves) continue;
      const waves: TileWaves = { halves, rows, depth, tokens: 1 };
      const cost = costOf(request, waves, COSTS[tile]);
      if (cost < bestCost) [best, bestCost] = [waves, cost];
    }
  }
  return best;
}

function costOf(request: GemmRequest, waves: TileWaves, { input, slab, split }: TileCosts): number {
  const blocks = blocksOf(request, waves);
  const splits = splitsOf(request, waves, blocks);
  const rounds = Math.ceil((blocks * splits) / request.multiprocessors);
  const slabs = Math.ceil(slabsOf(request, waves) / splits);
  const tiles = waves.rows * waves.halves;
  const merging = splits > 1 ? splits * tiles * split : 0;
  return rounds * (slabs * (waves.depth * (tiles + input) + slab) + BLOCK_COST + merging);
}
