// How matmul/wide-gemm.hip is cut: which devices and weights it is for, tokens of a tile, teams of a block, and blocks that
// share the slabs of all tiles.

import type { TensorDescriptor } from "../../../tensor/descriptor.js";
import type { GpuLoweringOptions } from "./context.js";
import { isPlain } from "./matmul-selection.js";

/** Tokens of a tile, as TOKENS may be. */
export const PANEL_TOKENS = [16, 32, 64, 128, 256] as const;
type PanelTokens = (typeof PANEL_TOKENS)[number];
export const MAX_PANEL_TOKENS = 256;
/** Columns that products take at a time. */
export const SLAB_COLUMNS = 128;

/** Architectures with the products of kernels/device/wide-matmul.h. */
const WIDE_ARCHITECTURES: ReadonlySet<string> = new Set(["sm_90"]);
/** Weights whose groups of 16 columns lie 32 apart (Q5_K), and not side by side as those of the input. */
const OTHERWISE_ORDERED: ReadonlySet<number> = new Set([13]);
const TEAM_ROWS = 64;
const HALF_BYTES = 2;
/** So that the first stage begins at a multiple of it. */
const STAGE_ALIGNMENT = 1024;
const MAX_STAGES = 6;

interface TileCut {
  /** Teams that multiply, of which a block may have so many with the registers that sums of the tile leave. */
  readonly teams: readonly number[];
  /** Slabs of weights on their way. */
  readonly ring: number;
  /** Microseconds for a slab of a block, of each of its teams, and for each further block that shares a tile. */
  readonly slab: number;
  readonly team: number;
  readonly part: number;
}

/** As measured on an H200 with Q4_K for the matrices of Llama-3-8B. */
const CUTS: Readonly<Record<PanelTokens, TileCut>> = {
  16: { teams: [2, 3], ring: 4, slab: 0.22, team: 0.155, part: 0.6 },
  32: { teams: [2, 3], ring: 4, slab: 0.26, team: 0.16, part: 0.7 },
  64: { teams: [2, 3], ring: 4, slab: 0.3, team: 0.17, part: 0.8 },
  128: { teams: [2], ring: 4, slab: 0.15, team: 0.313, part: 1.15 },
  256: { teams: [2], ring: 2, slab: 0.1, team: 0.52, part: 2 },
};

type WideDevice = Pick<GpuLoweringOptions, "device" | "deterministic">;

export interface WideGemmRequest {
  /** Of each matrix; of a gated launch the gate's alone. */
  readonly rows: readonly number[];
  readonly width: number;
  readonly gated: boolean;
  readonly multiprocessors: number;
  readonly sharedBytes: number;
}

export interface WideGemmShape {
  /** All teams of a block: those that multiply and the one that brings the input. */
  readonly teams: number;
  readonly ring: number;
  readonly stages: number;
  readonly sharedBytes: number;
}

/** Whether a device has these products at all. */
export function hasWideGemm({ device: { architecture, sharedBytes }, deterministic }: WideDevice): boolean {
  const isWide = architecture !== undefined && WIDE_ARCHITECTURES.has(architecture);
  return isWide && !deterministic && sharedBytes >= stageBytes(MAX_PANEL_TOKENS) * 2 + STAGE_ALIGNMENT;
}

/** Whether a matmul with this weight can use them. */
export function takesWideGemm(options: WideDevice, weight: TensorDescriptor): boolean {
  return hasWideGemm(options) && !isPlain(weight) && !OTHERWISE_ORDERED.has(weight.layout.id);
}

/** Index of the smallest tile that holds `tokens` tokens; more than the largest take several tiles. */
export function panelIndex(tokens: number): number {
  const index = PANEL_TOKENS.findIndex((count) => tokens <= count);
  return index === -1 ? PANEL_TOKENS.length - 1 : index;
}

function stageBytes(tokens: number): number {
  return tokens * SLAB_COLUMNS * HALF_BYTES;
}

function tilesOf({ rows, gated }: WideGemmRequest, teams: number): number {
  const tileRows = (teams * TEAM_ROWS) / (gated ? 2 : 1);
  return rows.reduce((sum, count) => sum + Math.ceil(count / tileRows), 0);
}

/** How a block works on tiles of this many tokens. */
export function wideGemmShape(request: WideGemmRequest, tokens: PanelTokens): WideGemmShape {
  const { ring } = CUTS[tokens];
  const fitting = Math.floor((request.sharedBytes - STAGE_ALIGNMENT) / stageBytes(tokens));
  const stages = Math.min(MAX_STAGES, fitting);
  return {
    teams: bestTeams(request, tokens) + 1,
    ring,
    stages,
    sharedBytes: stages * stageBytes(tokens) + STAGE_ALIGNMENT,
  };
}

/** Blocks that share the slabs of all tiles of a step. */
export function wideGemmBlocks(request: WideGemmRequest, { teams }: WideGemmShape, tokens: number): number {
  const tokenTiles = Math.ceil(tokens / PANEL_TOKENS[panelIndex(tokens)]);
  return blocksFor(request, tilesOf(request, teams - 1) * tokenTiles);
}

/** As many as there are multiprocessors; where there are few tiles, as many for each, so that they begin and end together. */
function blocksFor({ multiprocessors, width }: WideGemmRequest, tiles: number): number {
  if (tiles === 0) return 0;
  if (tiles >= multiprocessors) return multiprocessors;
  const slabs = Math.ceil(width / SLAB_COLUMNS);
  const each = Math.min(slabs, Math.floor(multiprocessors / tiles));
  // With less than two for each, some tiles would have a block too few: shared evenly all are busy as long.
  return each > 1 ? tiles * each : Math.min(multiprocessors, tiles * slabs);
}

function bestTeams(request: WideGemmRequest, tokens: PanelTokens): number {
  const { teams, slab, team, part } = CUTS[tokens];
  const slabs = Math.ceil(request.width / SLAB_COLUMNS);
  const costs = teams.map((count) => {
    const tiles = tilesOf(request, count);
    const blocks = blocksFor(request, tiles);
    const parts = Math.max(1, Math.ceil(blocks / Math.max(1, tiles)));
    return ((tiles * slabs) / Math.max(1, blocks)) * (slab + team * count) + part * (parts - 1);
  });
  return teams[costs.indexOf(Math.min(...costs))];
}
