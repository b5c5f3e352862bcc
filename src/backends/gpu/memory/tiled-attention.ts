// Shapes of prefill attention by attention/tiled.hip, the host's counterpart of its shared memory: waves of a block, positions
// at a time.

import type { KvCacheType } from "../../contract.js";
import { type HeadWidths, isWide } from "./kv-layout.js";

/** How attention/tiled.hip divides a tile of tokens, and the positions that it attends to, among blocks. */
interface TiledShape {
  readonly defines: Readonly<Record<string, number>>;
  readonly blocksPerTile: number;
  readonly sharedBytes: number;
}

/** Waves of a block (16 tokens each) and positions at a time; the first is the kernel's default. */
const TILED_SHAPES = [
  { waves: 4, positions: 64 },
  { waves: 4, positions: 32 },
  { waves: 2, positions: 32 },
] as const;

/** Waves of a block of tiled attention and positions at a time. */
export type TiledParameters = Readonly<Record<"waves" | "positions", number>>;

/**
 * The best that fit the shared memory of a block. Undefined if prefill cannot use attention/tiled.hip, which reads keys and
 * values as f16; split attention then handles any number of tokens.
 */
export function usualTiledParameters(
  type: KvCacheType,
  widths: HeadWidths,
  sharedBytes: number,
): TiledParameters | undefined {
  if (type === "f32" || isWide(widths)) return undefined;
  return TILED_SHAPES.find((shape) => tiledSharedBytes(widths, shape) <= sharedBytes);
}

/** Whether a launch of tiled attention can be cut so. */
export function isTiledShape(widths: HeadWidths, parameters: TiledParameters, sharedBytes: number): boolean {
  const { waves, positions } = parameters;
  const isKnown = TILED_SHAPES.some((shape) => shape.waves === waves && shape.positions === positions);
  return isKnown && tiledSharedBytes(widths, parameters) <= sharedBytes;
}

export function tiledShape(widths: HeadWidths, parameters: TiledParameters): TiledShape {
  const { waves, positions } = parameters;
  const [{ waves: mostWaves, positions: mostPositions }] = TILED_SHAPES;
  const isDefault = waves === mostWaves && positions === mostPositions;
  return {
    defines: isDefault ? {} : { TILE_WAVES: waves, TILE_POSITIONS: positions },
    blocksPerTile: mostWaves / waves,
    sharedBytes: tiledSharedBytes(widths, parameters),
  };
}

/** kSharedBytes of kernels/attention/tiled.hip. */
function tiledSharedBytes({ keyWidth, valueWidth }: HeadWidths, { waves, positions }: TiledParameters): number {
  const tokens = waves * 16;
  const paddedBytes = (width: number): number => (Math.ceil(width / 16) * 16 + 8) * 2;
  const inputBytes = (tokens + positions) * paddedBytes(keyWidth) + positions * paddedBytes(valueWidth);
  return Math.max(inputBytes, tokens * valueWidth * 4) + waves * 512;
}
