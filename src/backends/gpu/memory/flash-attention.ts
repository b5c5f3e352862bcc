// Shapes of prefill attention by wide products, the host's counterpart of kernels/attention/flash.hip: for which heads it is
// the kernel, on which devices, and with how many positions at a time.

import type { AttentionOperation } from "../../../graph/operation.js";
import type { KvCacheType } from "../../contract.js";
import type { GpuProperties } from "../drivers/shared/driver.js";

/** What of a device the choice depends on. */
type FlashDevice = Pick<GpuProperties, "sharedBytes"> & Partial<Pick<GpuProperties, "architecture">>;

/** How blocks of attention/flash.hip work. */
interface FlashShape {
  readonly defines: Readonly<
    Record<"TEAMS" | "TILE_POSITIONS" | "STAGES" | "RESIDENT_BLOCKS" | "MATRIX_LAYOUT", number>
  >;
  /** Blocks for each tile of tokens. */
  readonly blocks: number;
  readonly sharedBytes: number;
}

/** Architectures with the products of kernels/device/wide-panels.h. */
const FLASH_ARCHITECTURES: ReadonlySet<string> = new Set(["sm_90"]);
/** How blocks of one and of two query heads work. */
interface BlockShape {
  /** Positions at a time, as many as leave room for the sums in registers. */
  readonly positions: number;
  /** Blocks that a multiprocessor has at a time. */
  readonly residentBlocks: number;
}

/** By width of heads. */
const BLOCK_SHAPES: ReadonlyMap<number, readonly [one: BlockShape, two: BlockShape]> = new Map([
  [
    64,
    [
      { positions: 128, residentBlocks: 2 },
      { positions: 128, residentBlocks: 1 },
    ],
  ],
  [
    128,
    [
      { positions: 64, residentBlocks: 2 },
      { positions: 128, residentBlocks: 1 },
    ],
  ],
  [
    256,
    [
      { positions: 64, residentBlocks: 1 },
      { positions: 64, residentBlocks: 1 },
    ],
  ],
]);
const STAGES = 2;
/** Tokens of a tile: kTileTokens of the kernel. */
const TILE_TOKENS = 64;
/** Lanes that look up the blocks of a tile, one each. */
const WAVE_LANES = 32;
const HALF_BYTES = 2;
const PANEL_ALIGNMENT_BYTES = 1024;

/** The shape for these heads; undefined if another kernel computes them. */
export function flashShape(
  type: KvCacheType,
  operation: AttentionOperation,
  blockTokens: number,
  { architecture, sharedBytes: availableBytes }: FlashDevice,
): FlashShape | undefined {
  const { heads, kvHeads, keyWidth, valueWidth, valuesInKeys = false } = operation;
  if (architecture === undefined || !FLASH_ARCHITECTURES.has(architecture)) return undefined;
  if (type !== "f16" || keyWidth !== valueWidth || valuesInKeys) return undefined;
  const group = heads / kvHeads;
  const blockHeads = Math.min(2, group);
  const shape = BLOCK_SHAPES.get(keyWidth)?.[blockHeads - 1];
  if (shape === undefined || !takesBlocks(shape.positions, blockTokens)) return undefined;
  const { positions, residentBlocks } = shape;
  const rowsBytes = (rows: number): number => rows * keyWidth * HALF_BYTES;
  const sharedBytes = rowsBytes(blockHeads * TILE_TOKENS) + 2 * STAGES * rowsBytes(positions) + PANEL_ALIGNMENT_BYTES;
  if (sharedBytes > availableBytes) return undefined;
  return {
    defines: {
      TEAMS: blockHeads + 1,
      TILE_POSITIONS: positions,
      STAGES,
      RESIDENT_BLOCKS: residentBlocks,
      MATRIX_LAYOUT: 80,
    },
    blocks: kvHeads * Math.ceil(group / blockHeads),
    sharedBytes,
  };
}

/** Tiles are whole blocks of the cache or parts of one, and rounds of copies do not leave a block. */
function takesBlocks(positions: number, blockTokens: number): boolean {
  const rowsAtOnce = 16;
  if (blockTokens >= positions) return blockTokens % positions === 0;
  return positions % blockTokens === 0 && blockTokens % rowsAtOnce === 0 && positions / blockTokens <= WAVE_LANES;
}
