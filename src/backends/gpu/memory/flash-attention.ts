// Shapes of prefill attention by wide products, the host's counterpart of kernels/attention/flash.hip: for which heads it is
// the kernel, on which devices, and with how many heads and positions at a time.

import type { AttentionOperation } from "../../../graph/operation.js";
import type { KvCacheType } from "../../contract.js";
import type { GpuProperties } from "../drivers/shared/driver.js";

/** What of a device the choice depends on. */
export type FlashDevice = Pick<GpuProperties, "sharedBytes"> & Partial<Pick<GpuProperties, "architecture">>;

/** Query heads of a block, positions at a time, stages of keys and of values. */
export type FlashParameters = Readonly<Record<"heads" | "positions" | "stages", number>>;

/** The heads that blocks of attention/flash.hip share, and what they have room for. */
export interface FlashRequest {
  readonly kvHeads: number;
  /** Query heads of a kv head. */
  readonly group: number;
  readonly width: number;
  readonly blockTokens: number;
  readonly availableBytes: number;
}

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
/** Positions at a time of blocks of one and of two query heads, by width: as many as leave room for the sums in registers. */
const POSITIONS: ReadonlyMap<number, readonly [one: number, two: number]> = new Map([
  [64, [128, 128]],
  [128, [64, 128]],
  [256, [64, 64]],
]);
const POSITION_CHOICES: readonly number[] = [64, 128];
const MAX_HEADS = 2;
const [STAGES, MAX_STAGES] = [2, 3];
/** Columns times positions of a block of one head, up to which its registers leave room for a second block; and of any block. */
const RESIDENT_AREA = 64 * 128;
const MAX_AREA = 128 * 128;
/** Tokens of a tile: kTileTokens of the kernel. */
const TILE_TOKENS = 64;
/** Lanes that look up the blocks of a tile, one each. */
const WAVE_LANES = 32;
const HALF_BYTES = 2;
const PANEL_ALIGNMENT_BYTES = 1024;

/** Whether a device has the products of kernels/device/wide-panels.h. */
export function hasWidePanels({ architecture }: FlashDevice): boolean {
  return architecture !== undefined && FLASH_ARCHITECTURES.has(architecture);
}

/** Undefined if another kernel computes these heads. */
export function flashRequest(
  type: KvCacheType,
  operation: AttentionOperation,
  blockTokens: number,
  device: FlashDevice,
): FlashRequest | undefined {
  const { heads, kvHeads, keyWidth, valueWidth, valuesInKeys = false } = operation;
  if (!hasWidePanels(device)) return undefined;
  if (type !== "f16" || keyWidth !== valueWidth || valuesInKeys || !POSITIONS.has(keyWidth)) return undefined;
  const { sharedBytes: availableBytes } = device;
  const request = { kvHeads, group: heads / kvHeads, width: keyWidth, blockTokens, availableBytes };
  return isFlashShape(request, usualFlashParameters(request)) ? request : undefined;
}

/** What the formulas take. */
export function usualFlashParameters({ group, width }: FlashRequest): FlashParameters {
  const heads = Math.min(MAX_HEADS, group);
  return { heads, positions: POSITIONS.get(width)?.[heads - 1] ?? 0, stages: STAGES };
}

/** Whether a launch can be cut so. */
export function isFlashShape(request: FlashRequest, parameters: FlashParameters): boolean {
  const { group, width, blockTokens, availableBytes } = request;
  const { heads, positions, stages } = parameters;
  return (
    heads >= 1 &&
    heads <= Math.min(MAX_HEADS, group) &&
    POSITION_CHOICES.includes(positions) &&
    positions * width <= MAX_AREA &&
    takesBlocks(positions, blockTokens) &&
    stages >= STAGES &&
    stages <= MAX_STAGES &&
    flashShape(request, parameters).sharedBytes <= availableBytes
  );
}

export function flashShape(
  { kvHeads, group, width }: FlashRequest,
  { heads, positions, stages }: FlashParameters,
): FlashShape {
  const rowsBytes = (rows: number): number => rows * width * HALF_BYTES;
  return {
    defines: {
      TEAMS: heads + 1,
      TILE_POSITIONS: positions,
      STAGES: stages,
      RESIDENT_BLOCKS: heads === 1 && positions * width <= RESIDENT_AREA ? 2 : 1,
      MATRIX_LAYOUT: 80,
    },
    blocks: kvHeads * Math.ceil(group / heads),
    sharedBytes: rowsBytes(heads * TILE_TOKENS) + 2 * stages * rowsBytes(positions) + PANEL_ALIGNMENT_BYTES,
  };
}

/** Whether a tile of this many positions is several whole cache blocks or part of one, and no round of copies crosses a block. */
export function takesBlocks(positions: number, blockTokens: number): boolean {
  const rowsAtOnce = 16;
  if (blockTokens >= positions) return blockTokens % positions === 0;
  return positions % blockTokens === 0 && blockTokens % rowsAtOnce === 0 && positions / blockTokens <= WAVE_LANES;
}
