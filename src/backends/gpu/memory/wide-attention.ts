// Shapes of attention over wide heads on the matrix units, the host's counterpart of kernels/attention/wide.h: how many
// rows of queries a block has and how many positions at a time, so that both fit into its shared memory.

import type { AttentionOperation } from "../../../graph/operation.js";
import type { KvCacheType } from "../../contract.js";
import type { GpuProperties } from "../drivers/shared/driver.js";

/** What of a device the choice depends on. */
export type WideDevice = Pick<GpuProperties, "sharedBytes" | "waveSize">;

type WideWidths = Pick<AttentionOperation, "keyWidth" | "valueWidth" | "valuesInKeys">;

/** How a block of attention/wide-tiled.hip or attention/wide-split.hip works. */
export interface WideShape {
  readonly defines: Readonly<Record<"ROW_TILES" | "TILE_POSITIONS" | "STAGES", number>>;
  /** Rows of queries of a block. */
  readonly rows: number;
  readonly sharedBytes: number;
}

interface ShapeChoice {
  readonly rowTiles: number;
  readonly positions: number;
  readonly stages: number;
}

/** Rows of a tile of the matrix units. */
const TILE_ROWS = 16;
const THREADS = 256;
/** Devices with no more shared memory a block than this may lack matrix units; each wave then needs memory to multiply. */
const PLAIN_SHARED_BYTES = 65_536;
const PLAIN_WAVE_BYTES = 1024;
/** Narrower heads are better off with attention/tiled.hip, whose sums fit into the registers of one wave. */
const WIDER_THAN = 128;
/** Heads of attention/tiled.hip and attention/decode.hip, at most. */
const WIDE_HEAD = 256;

/** For prefill, the best first: tokens of a tile, and copies of the next rows while these are used. */
const TILED_CHOICES: readonly ShapeChoice[] = [
  { rowTiles: 4, positions: 32, stages: 2 },
  { rowTiles: 4, positions: 32, stages: 1 },
  { rowTiles: 2, positions: 32, stages: 1 },
  { rowTiles: 2, positions: 16, stages: 1 },
  { rowTiles: 1, positions: 32, stages: 1 },
  { rowTiles: 1, positions: 16, stages: 1 },
];

/** For decode, the best first: all rows of a split at once if they fit. */
const SPLIT_POSITION_CHOICES = [128, 64, 32, 16];
/** More heads a block leave too few positions at a time. */
const MOST_SPLIT_TILES = 2;

/**
 * The shape of prefill attention over these heads, if attention/wide-tiled.hip is the kernel for it on such a device.
 */
export function wideTiledShape(type: KvCacheType, widths: WideWidths, device: WideDevice): WideShape | undefined {
  const widest = Math.max(widths.keyWidth, widths.valueWidth);
  if (type === "f32" || widest <= WIDER_THAN) return undefined;
  const choices = widest <= WIDE_HEAD ? TILED_CHOICES.slice(0, 1) : TILED_CHOICES;
  return firstFitting(choices, widths, 1, device);
}

/** The shape of decode attention over these heads, if attention/wide-split.hip is the kernel for it on such a device. */
export function wideSplitShape(
  type: KvCacheType,
  operation: AttentionOperation,
  device: WideDevice,
): WideShape | undefined {
  if (!takesWideSplit(type, operation)) return undefined;
  const tiles = Math.min(MOST_SPLIT_TILES, headTiles(operation));
  const choices = Array.from({ length: tiles }, (_, fewer) => splitChoices(tiles - fewer));
  return firstFitting(choices.flat(), operation, 2, device);
}

/** The same with more blocks of fewer heads each, for steps that would leave most of a device idle; undefined if there is none. */
export function narrowSplitShape(
  type: KvCacheType,
  operation: AttentionOperation,
  device: WideDevice,
): WideShape | undefined {
  if (!takesWideSplit(type, operation) || headTiles(operation) === 1) return undefined;
  return firstFitting(splitChoices(1), operation, 2, device);
}

function takesWideSplit(type: KvCacheType, { keyWidth, valueWidth, valuesInKeys = false }: WideWidths): boolean {
  return type === "f16" && (valuesInKeys || Math.max(keyWidth, valueWidth) > WIDE_HEAD);
}

/** Tiles of the query heads that share a KV head. */
function headTiles({ heads, kvHeads }: AttentionOperation): number {
  return Math.ceil(heads / kvHeads / TILE_ROWS);
}

function splitChoices(rowTiles: number): readonly ShapeChoice[] {
  return SPLIT_POSITION_CHOICES.map((positions) => ({ rowTiles, positions, stages: 1 }));
}

/** Blocks along the y axis of the grid of attention/wide-split.hip. */
export function wideSplitRows({ heads, kvHeads }: AttentionOperation, { rows }: Pick<WideShape, "rows">): number {
  return kvHeads * Math.ceil(heads / kvHeads / rows);
}

function firstFitting(
  choices: readonly ShapeChoice[],
  widths: WideWidths,
  parts: number,
  { sharedBytes, waveSize }: WideDevice,
): WideShape | undefined {
  const waves = THREADS / waveSize;
  const availableBytes = sharedBytes - (sharedBytes <= PLAIN_SHARED_BYTES ? waves * PLAIN_WAVE_BYTES : 0);
  const shapes = choices.map((choice): WideShape => ({
    defines: { ROW_TILES: choice.rowTiles, TILE_POSITIONS: choice.positions, STAGES: choice.stages },
    rows: choice.rowTiles * TILE_ROWS,
    sharedBytes: sharedBytesOf(widths, parts, choice),
  }));
  return shapes.find((shape) => shape.sharedBytes <= availableBytes);
}

/** kSharedBytes of kernels/attention/wide-memory.h. */
function sharedBytesOf(
  { keyWidth, valueWidth, valuesInKeys = false }: WideWidths,
  parts: number,
  { rowTiles, positions, stages }: ShapeChoice,
): number {
  const rows = rowTiles * TILE_ROWS;
  const tilesOf = (width: number): number => Math.ceil(width / TILE_ROWS);
  const strideBytes = (width: number): number => (tilesOf(width) * TILE_ROWS + 8) * 2;
  const stage = positions * (strideBytes(keyWidth) + (valuesInKeys ? 0 : strideBytes(valueWidth)));
  const input = parts * rows * strideBytes(keyWidth) + stages * stage;
  // The most of both wave sizes.
  const results = [32, 64].map((wave) => {
    const waves = THREADS / wave;
    const waveTiles = Math.ceil(Math.ceil(tilesOf(valueWidth) / waves) / 2) * 2;
    return waves * TILE_ROWS * waveTiles * TILE_ROWS * 4;
  });
  const weights = parts * rows * (positions + 8) * 2;
  const floats = ((2 * positions) / TILE_ROWS + 5) * rows * 4 + 2 * positions * 4;
  return Math.max(input, ...results) + weights + floats;
}
