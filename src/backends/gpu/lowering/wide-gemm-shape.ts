// How matmul/wide-gemm.hip is cut: which devices and weights it is for, tokens of a tile, teams of a block, and blocks that
// share the slabs of all tiles.

import type { TensorDescriptor } from "../../../tensor/descriptor.js";
import type { GpuLoweringOptions } from "./context.js";
import type { ParametersOf } from "./kernel-families.js";
import { isPlain } from "./matmul-selection.js";

/** Tokens of a tile, as TOKENS may be. */
export const PANEL_TOKENS = [16, 32, 64, 128, 256] as const;
export type PanelTokens = (typeof PANEL_TOKENS)[number];
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
/** A stage is handed back only after the next one has been asked for. */
const MIN_STAGES = 2;
/** Blocks of one tile: more would only add up sums. */
const MAX_SHARES = 8;

interface TileCut {
  /** Microseconds for a slab, by the number of teams that a block may have beside the registers of a tile's sums. */
  readonly slab: ReadonlyMap<number, number>;
  /** For each further block that shares a tile. */
  readonly part: number;
}

/** As measured on an H200 with Q4_K for the matrices of Llama-3-8B; four teams with 16 tokens are an estimate. */
const CUTS: Readonly<Record<PanelTokens, TileCut>> = {
  16: { slab: costs({ 2: 0.445, 3: 0.61, 4: 0.82 }), part: 0.6 },
  32: { slab: costs({ 2: 0.49, 3: 0.69, 4: 0.844 }), part: 0.7 },
  64: { slab: costs({ 2: 0.635, 3: 0.95, 4: 1.06 }), part: 0.8 },
  128: { slab: costs({ 2: 0.776 }), part: 1.15 },
  256: { slab: costs({ 2: 1.14 }), part: 2 },
};
/** With tiles of few tokens, how much longer a slab takes if blocks of three teams have no room for the long ring. */
const MIDDLE_RING_COST = 1.2;
const FEW_TOKENS = 32;
/** To begin and end a block's part of a tile, of each of its teams. */
const SEGMENT_COST = { all: 1.5, team: 0.6 } as const;
/**
 * Slabs of weights in registers, of which half are on their way: as many as fit without spills (nvcc 13.0). With two of them the
 * time from a load to its use is too short for few tokens.
 */
const [LONG_RING, MIDDLE_RING, SHORT_RING] = [6, 4, 2];
const RINGS: readonly number[] = [LONG_RING, MIDDLE_RING, SHORT_RING];
/** Teams from which on a thread has registers for two only. */
const MANY_TEAMS = 4;
const MIN_TEAMS = 2;
/** Q8_0 and Q6_K, whose blocks take more registers than those of others. */
const LARGE_TYPES: ReadonlySet<number> = new Set([8, 14]);

type WideDevice = Pick<GpuLoweringOptions, "device" | "deterministic">;

export interface WideGemmRequest {
  /** Of each matrix; of a gated launch the gate's alone. */
  readonly rows: readonly number[];
  readonly width: number;
  readonly gated: boolean;
  /** ggml types of the weights. */
  readonly types: readonly number[];
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

export type WideGemmParameters = ParametersOf<"wide-gemm">;
/** How blocks share the tiles. */
type TileShares = Pick<WideGemmParameters, "teams" | "shares">;

/** What the formulas take for tiles of this many tokens. */
export function usualWideGemmParameters(request: WideGemmRequest, tokens: PanelTokens): WideGemmParameters {
  const best = bestShares(request, tokens);
  return { ...best, ring: longestRing(request, tokens, best.teams), stages: mostStages(request, tokens) };
}

function bestShares(request: WideGemmRequest, tokens: PanelTokens): TileShares {
  let best: TileShares = { teams: MIN_TEAMS, shares: 0 };
  let bestCost = Infinity;
  for (const teams of teamsFor(request, tokens)) {
    const isWaitedFor = longestRing(request, tokens, teams) === SHORT_RING && tokens < MAX_PANEL_TOKENS;
    // Four teams hide from each other what one of them waits for, but of large types they spill.
    if (isWaitedFor && (teams < MANY_TEAMS || !areSmall(request))) continue;
    const shares = Math.floor(request.multiprocessors / Math.max(1, tilesOf(request, teams)));
    for (const candidate of [
      { teams, shares: Math.min(shares, slabsOf(request), MAX_SHARES) },
      { teams, shares: 0 },
    ]) {
      const cost = costOf(request, tokens, candidate);
      if (cost < bestCost) [best, bestCost] = [candidate, cost];
    }
  }
  return best;
}

/** Whether a launch can be cut so. */
export function isWideGemmShape(
  request: WideGemmRequest,
  tokens: PanelTokens,
  { teams, shares, ring, stages }: WideGemmParameters,
): boolean {
  return (
    teamsFor(request, tokens).includes(teams) &&
    RINGS.includes(ring) &&
    ring <= longestRing(request, tokens, teams) &&
    stages >= MIN_STAGES &&
    stages <= mostStages(request, tokens) &&
    shares <= slabsOf(request) &&
    tilesOf(request, teams) * shares <= request.multiprocessors
  );
}

/** The longest ring that registers have room for beside sums and, if there are several types, the code for each. */
function longestRing(request: WideGemmRequest, tokens: PanelTokens, teams: number): number {
  const { types } = request;
  const different = new Set(types).size;
  const isOfOneType = different === 1;
  if (teams >= MANY_TEAMS) return SHORT_RING;
  if (tokens === MAX_PANEL_TOKENS) return areSmall(request) ? MIDDLE_RING : SHORT_RING;
  if (teams > MIN_TEAMS) return areSmall(request) ? LONG_RING : isOfOneType ? MIDDLE_RING : SHORT_RING;
  return different > 2 || (tokens > 64 && !isOfOneType) ? MIDDLE_RING : LONG_RING;
}

/** Whether all weights are of one type, whose blocks take few registers. */
function areSmall({ types }: WideGemmRequest): boolean {
  return new Set(types).size === 1 && !LARGE_TYPES.has(types[0]);
}

/** That a block has room for. */
function mostStages({ sharedBytes }: WideGemmRequest, tokens: PanelTokens): number {
  return Math.min(MAX_STAGES, Math.floor((sharedBytes - STAGE_ALIGNMENT) / stageBytes(tokens)));
}

/** How a block works on tiles of this many tokens. */
export function wideGemmShape(tokens: PanelTokens, { teams, ring, stages }: WideGemmParameters): WideGemmShape {
  return { teams: teams + 1, ring, stages, sharedBytes: stages * stageBytes(tokens) + STAGE_ALIGNMENT };
}

/** Blocks of a step of this many tokens: `shares` for each tile, or as many as share the slabs of all tiles evenly. */
export function wideGemmBlocks(request: WideGemmRequest, { teams, shares }: TileShares, tokens: number): number {
  const tokenTiles = Math.ceil(tokens / PANEL_TOKENS[panelIndex(tokens)]);
  const tiles = tilesOf(request, teams) * tokenTiles;
  const { multiprocessors } = request;
  return tokenTiles === 1 && shares > 0 ? tiles * shares : Math.min(multiprocessors, tiles * slabsOf(request));
}

function teamsFor({ types }: WideGemmRequest, tokens: PanelTokens): readonly number[] {
  const all = [...CUTS[tokens].slab.keys()];
  return new Set(types).size === 1 ? all : all.filter((teams) => teams < MANY_TEAMS);
}

function costs(byTeams: Readonly<Record<number, number>>): ReadonlyMap<number, number> {
  return new Map(Object.entries(byTeams).map(([teams, microseconds]) => [Number(teams), microseconds]));
}

function slabsOf({ width }: WideGemmRequest): number {
  return Math.ceil(width / SLAB_COLUMNS);
}

function costOf(request: WideGemmRequest, tokens: PanelTokens, parameters: TileShares): number {
  const { slab, part } = CUTS[tokens];
  const { teams, shares } = parameters;
  const hasMiddleRing = teams > MIN_TEAMS && longestRing(request, tokens, teams) === MIDDLE_RING;
  const slabCost = (slab.get(teams) ?? Infinity) * (tokens <= FEW_TOKENS && hasMiddleRing ? MIDDLE_RING_COST : 1);
  const tiles = tilesOf(request, teams);
  const blocks = wideGemmBlocks(request, parameters, tokens);
  if (blocks === 0) return Infinity;
  // Where blocks do not keep to tiles, each begins and ends within one.
  const segments = shares > 0 ? 1 : Math.max(1, tiles / blocks) + 1;
  const parts = shares > 0 ? shares : Math.ceil(blocks / tiles) + 1;
  return (
    ((tiles * slabsOf(request)) / blocks) * slabCost +
    segments * (SEGMENT_COST.all + SEGMENT_COST.team * teams) +
    part * (parts - 1)
  );
}
