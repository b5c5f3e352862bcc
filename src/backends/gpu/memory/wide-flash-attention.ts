// Shapes of prefill attention over latent heads by wide products, the host's counterpart of kernels/attention/wide-flash.hip:
// for which heads it is the kernel, and on which devices.

import type { AttentionOperation } from "../../../graph/operation.js";
import type { KvCacheType } from "../../contract.js";
import { type FlashDevice, hasWidePanels, takesBlocks } from "./flash-attention.js";

/** How blocks of attention/wide-flash.hip work. */
export interface WideFlashShape {
  readonly defines: Readonly<Record<"TILE_POSITIONS" | "VALUE_PARTS" | "MATRIX_LAYOUT", number>>;
  /** Blocks for each tile of tokens. */
  readonly blocks: number;
  readonly sharedBytes: number;
}

/** Widths of values of which two teams have half each, in products of whole panels. */
const VALUE_WIDTHS: ReadonlySet<number> = new Set([128, 256, 512]);
const PANEL_COLUMNS = 64;
/** Tokens of a tile, and positions at a time. */
const [TILE_TOKENS, POSITIONS] = [64, 64];
const STAGES = 2;
const HALF_BYTES = 2;
/** Weights that teams hand over, with the highest scores of two rows a thread. */
const EXCHANGE_BYTES = TILE_TOKENS * POSITIONS * HALF_BYTES + 128 * 8;
const HANDOVERS_BYTES = 10 * 8;
const PANEL_ALIGNMENT_BYTES = 1024;

/** Undefined if another kernel computes these heads. */
export function wideFlashShape(
  type: KvCacheType,
  { heads, keyWidth, valueWidth, valuesInKeys = false }: AttentionOperation,
  blockTokens: number,
  device: FlashDevice,
): WideFlashShape | undefined {
  if (!hasWidePanels(device) || type !== "f16" || !valuesInKeys) return undefined;
  if (keyWidth % PANEL_COLUMNS !== 0 || !VALUE_WIDTHS.has(valueWidth)) return undefined;
  if (!takesBlocks(POSITIONS, blockTokens)) return undefined;
  const sharedBytes =
    (TILE_TOKENS + STAGES * POSITIONS) * keyWidth * HALF_BYTES +
    EXCHANGE_BYTES +
    HANDOVERS_BYTES +
    PANEL_ALIGNMENT_BYTES;
  if (sharedBytes > device.sharedBytes) return undefined;
  return {
    defines: { TILE_POSITIONS: POSITIONS, VALUE_PARTS: 2, MATRIX_LAYOUT: 80 },
    blocks: heads,
    sharedBytes,
  };
}
