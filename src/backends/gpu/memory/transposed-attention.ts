// The shape of tiled attention on AMD's cards, the host's counterpart of TRANSPOSED in kernels/attention/tiled.hip: fewer
// positions at a time, whose values lie transposed in shared memory, so that a multiprocessor has room for several blocks.

import type { KvCacheType } from "../../contract.js";
import type { HeadWidths } from "./kv-layout.js";

/** Of a block: 16 tokens each. */
const WAVES = 4;
/** Positions at a time; more where a thread would have a single row. */
const POSITIONS = [32, 64] as const;
/** Rows of values that a thread has at a time. */
const ROWS_OF_A_THREAD: readonly number[] = [2, 4, 8];
/** Columns in 16 bytes of a row. */
const CHUNK_COLUMNS: Readonly<Record<KvCacheType, number>> = { f32: 4, f16: 8, q8_0: 16 };
/** Rows of a cache are whole chunks, and with scales whole groups that share one. */
const ROW_COLUMNS: Readonly<Record<KvCacheType, number>> = { f32: 16, f16: 16, q8_0: 32 };
/** Keys up to this width have their queries in registers. */
const HELD_COLUMNS = 128;
/** Columns of results that pass through shared memory at a time. */
const RESULT_COLUMNS = 64;

export interface TransposedShape {
  readonly defines: Readonly<Record<"TILE_WAVES" | "TILE_POSITIONS" | "TRANSPOSED", number>>;
  readonly blocksPerTile: number;
  readonly sharedBytes: number;
}

/** Undefined if threads and rows do not divide one another, or a block has too little shared memory. */
export function transposedShape(
  type: KvCacheType,
  widths: HeadWidths,
  { waveSize, sharedBytes: limit }: { readonly waveSize: 32 | 64; readonly sharedBytes: number },
): TransposedShape | undefined {
  const { valueWidth } = widths;
  const threads = WAVES * waveSize;
  const chunks = valueWidth / CHUNK_COLUMNS[type];
  if (type === "f32" || valueWidth % ROW_COLUMNS[type] !== 0 || threads % chunks !== 0) return undefined;
  const positions = POSITIONS.find((count) => ROWS_OF_A_THREAD.includes((count * chunks) / threads));
  if (positions === undefined) return undefined;
  const sharedBytes = sharedBytesOf(widths, positions, waveSize);
  if (sharedBytes > limit) return undefined;
  return {
    defines: { TILE_WAVES: WAVES, TILE_POSITIONS: positions, TRANSPOSED: 1 },
    blocksPerTile: 1,
    sharedBytes,
  };
}

/** kSharedBytes of kernels/attention/tiled.hip. */
function sharedBytesOf({ keyWidth, valueWidth }: HeadWidths, positions: number, waveSize: 32 | 64): number {
  const tokens = WAVES * 16;
  const rowBytes = (Math.ceil(keyWidth / 16) * 16 + 8) * 2;
  const [keyBytes, queryBytes] = [positions * rowBytes, tokens * rowBytes];
  const valueBytes = valueWidth * (positions + 4) * 2;
  // Waves of 64 have their queries in registers before the first values come.
  const sharesPlace = waveSize === 64 && keyWidth <= HELD_COLUMNS;
  const inputBytes = keyBytes + (sharesPlace ? Math.max(valueBytes, queryBytes) : valueBytes + queryBytes);
  const resultBytes = tokens * Math.min(valueWidth, RESULT_COLUMNS) * 4;
  return Math.max(inputBytes, resultBytes) + WAVES * 512;
}
