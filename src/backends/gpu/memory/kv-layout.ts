// Sizes of the KV cache and of attention launches: the host's counterpart of kernels/attention/kv-cache.h, and what
// those kernels do not support. Layers follow one another; a layer is keys, key scales (q8_0), values, value scales,
// each plane rounded up.

import type { AttentionOperation, RopeOperation } from "../../../graph/operation.js";
import type { KvShape } from "../../../graph/program.js";
import type { KvCacheOptions, KvCacheType, Support } from "../../contract.js";
import { supportsUniformKvCache } from "../../host-memory.js";

/** Positions per thread block of split attention: kSplitPositions of kernels/device/step.h. */
export const SPLIT_POSITIONS = 128;
/** Maximum tokens per tile of tiled attention: kTileTokens of kernels/attention/tiled.hip. */
export const TILE_TOKENS = 64;

const PLANE_ALIGNMENT_BYTES = 256;
const CHUNK_BYTES = 16;
const SCALE_COLUMNS = 32;
const SCALE_BYTES = 2;
/** Wider heads would not fit the registers of a block. */
const WIDEST_HEAD = 256;
/** Default number of query heads per block: kBlockHeads of kernels/attention/rows.h. */
const BLOCK_HEADS = 16;
/** Lanes that read a row together, if it is no wider than their chunks. */
const LANES_OF_ROW = 16;
/** Kernels count rows and cells in 32 bits. */
const MAX_ROWS = 2 ** 31 - 1;
/** Maximum number of blocks of a grid along y and z. */
const MAX_GRID = 65535;

const TYPES: Readonly<Record<KvCacheType, { readonly define: number; readonly columnBytes: number }>> = {
  f32: { define: 0, columnBytes: 4 },
  f16: { define: 1, columnBytes: 2 },
  q8_0: { define: 2, columnBytes: 1 },
};

interface KvLayout {
  readonly layerBytes: number;
  readonly sizeBytes: number;
  /** Offset of each plane in its layer. */
  readonly planes: {
    readonly keys: number;
    readonly keyScales: number;
    readonly values: number;
    readonly valueScales: number;
  };
}

/** Sizes and offsets of a KV cache on the device. */
export function kvLayout({
  type,
  layers,
  kvHeads,
  keyWidth,
  valueWidth,
  blocks,
  blockTokens,
}: KvCacheOptions): KvLayout {
  const rows = blocks * kvHeads * blockTokens;
  const plane = (bytes: number): number => Math.ceil((rows * bytes) / PLANE_ALIGNMENT_BYTES) * PLANE_ALIGNMENT_BYTES;
  const keyScales = plane(rowBytes(type, keyWidth));
  const values = keyScales + plane(scaleBytes(type, keyWidth));
  const valueScales = values + plane(rowBytes(type, valueWidth));
  const layerBytes = valueScales + plane(scaleBytes(type, valueWidth));
  return { layerBytes, sizeBytes: layerBytes * layers, planes: { keys: 0, keyScales, values, valueScales } };
}

/** The parts of a layer that belong to one block: their offsets for block 0, and the distance to the next block's. */
export function kvPlanes(
  options: KvCacheOptions,
): readonly { readonly byteOffset: number; readonly blockBytes: number }[] {
  const { type, keyWidth, valueWidth, kvHeads, blockTokens } = options;
  const { keys, keyScales, values, valueScales } = kvLayout(options).planes;
  return [
    { byteOffset: keys, rowBytes: rowBytes(type, keyWidth) },
    { byteOffset: keyScales, rowBytes: scaleBytes(type, keyWidth) },
    { byteOffset: values, rowBytes: rowBytes(type, valueWidth) },
    { byteOffset: valueScales, rowBytes: scaleBytes(type, valueWidth) },
  ].flatMap((plane) =>
    plane.rowBytes === 0 ? [] : [{ byteOffset: plane.byteOffset, blockBytes: kvHeads * blockTokens * plane.rowBytes }],
  );
}

/** A head's columns in the cache, padded to chunks of 16 bytes and whole scales. */
function storedColumns(type: KvCacheType, width: number): number {
  const unit = type === "q8_0" ? SCALE_COLUMNS : CHUNK_BYTES / TYPES[type].columnBytes;
  return Math.ceil(width / unit) * unit;
}

function rowBytes(type: KvCacheType, width: number): number {
  return storedColumns(type, width) * TYPES[type].columnBytes;
}

function scaleBytes(type: KvCacheType, width: number): number {
  return type === "q8_0" ? (storedColumns(type, width) / SCALE_COLUMNS) * SCALE_BYTES : 0;
}

/** The defines of every kernel that accesses the cache. */
export function kvDefines(
  { keyWidth, valueWidth }: Pick<KvShape, "keyWidth" | "valueWidth">,
  { type, blockTokens }: { readonly type: KvCacheType; readonly blockTokens: number },
): Readonly<Record<"KV_TYPE" | "KEY_WIDTH" | "VALUE_WIDTH" | "BLOCK_TOKENS", number>> {
  return { KV_TYPE: TYPES[type].define, KEY_WIDTH: keyWidth, VALUE_WIDTH: valueWidth, BLOCK_TOKENS: blockTokens };
}

/** Whether the GPU kernels support a KV cache with these options, or why not. */
export function supportsGpuKvCache(options: KvCacheOptions): Support {
  const { type, keyWidth, valueWidth, kvHeads, blocks, blockTokens } = options;
  const uniform = supportsUniformKvCache(options);
  if (uniform !== true) return uniform;
  if (type === "q8_0" && (keyWidth % SCALE_COLUMNS !== 0 || valueWidth % SCALE_COLUMNS !== 0)) {
    return {
      reason: `q8_0 needs head widths in multiples of ${SCALE_COLUMNS}, and these are ${keyWidth} and ${valueWidth}`,
    };
  }
  const rows = blocks * blockTokens * kvHeads;
  if (rows > MAX_ROWS)
    return { reason: `a KV cache on the GPU has at most ${MAX_ROWS} rows a layer, and this one would have ${rows}` };
  return true;
}

/** Whether the attention kernels support this operation, or why not. */
export function supportsAttention({ heads, kvHeads, keyWidth, valueWidth }: AttentionOperation): Support {
  const widest = Math.max(keyWidth, valueWidth);
  if (widest > WIDEST_HEAD)
    return { reason: `attention on the GPU supports heads of up to ${WIDEST_HEAD} columns, and these have ${widest}` };
  if (heads % kvHeads !== 0)
    return { reason: `${heads} query heads cannot share ${kvHeads} key and value heads evenly` };
  if (heads > MAX_GRID)
    return { reason: `attention on the GPU supports at most ${MAX_GRID} heads, and there are ${heads}` };
  return true;
}

/** Whether the RoPE kernel supports this operation, or why not. */
export function supportsRope({ headWidth, rotaryWidth }: RopeOperation): Support {
  if (rotaryWidth % 2 === 0 && rotaryWidth <= headWidth) return true;
  return {
    reason: `RoPE rotates pairs of columns within a head: ${rotaryWidth} columns of ${headWidth} cannot be rotated`,
  };
}

type HeadWidths = Pick<KvShape, "keyWidth" | "valueWidth">;

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

/**
 * The best shape of tiled attention that fits the shared memory of a block. Undefined if prefill cannot use
 * attention/tiled.hip, which reads keys and values as f16; split attention then handles any number of tokens.
 */
export function tiledShape(type: KvCacheType, widths: HeadWidths, sharedBytes: number): TiledShape | undefined {
  if (type === "f32") return undefined;
  const index = TILED_SHAPES.findIndex((shape) => tiledSharedBytes(widths, shape) <= sharedBytes);
  if (index === -1) return undefined;
  const { waves, positions } = TILED_SHAPES[index];
  return {
    defines: index === 0 ? {} : { TILE_WAVES: waves, TILE_POSITIONS: positions },
    blocksPerTile: TILED_SHAPES[0].waves / waves,
    sharedBytes: tiledSharedBytes(widths, TILED_SHAPES[index]),
  };
}

/** kSharedBytes of kernels/attention/tiled.hip. */
function tiledSharedBytes(
  { keyWidth, valueWidth }: HeadWidths,
  { waves, positions }: { readonly waves: number; readonly positions: number },
): number {
  const tokens = waves * 16;
  const paddedBytes = (width: number): number => (Math.ceil(width / 16) * 16 + 8) * 2;
  const inputBytes = (tokens + positions) * paddedBytes(keyWidth) + positions * paddedBytes(valueWidth);
  return Math.max(inputBytes, tokens * valueWidth * 4) + waves * 512;
}

/** Number of splits of a sequence of `positions` positions. */
export function splitsOf(positions: number): number {
  return Math.ceil(positions / SPLIT_POSITIONS);
}

/**
 * Maximum number of splits with positions that a token attends to, in a sequence of `splits`: a window may begin inside
 * a split.
 */
export function visibleSplits({ window }: Pick<AttentionOperation, "window">, splits: number): number {
  if (window === undefined) return splits;
  return Math.min(splits, Math.floor((window + SPLIT_POSITIONS - 2) / SPLIT_POSITIONS) + 1);
}

/** Blocks along the y axis of split attention's grid: each has one kv head and up to `blockHeads` query heads. */
export function splitRows(
  { heads, kvHeads }: Pick<AttentionOperation, "heads" | "kvHeads">,
  blockHeads: number = BLOCK_HEADS,
): number {
  return kvHeads * Math.ceil(heads / kvHeads / blockHeads);
}

/** Maximum query heads per thread block of attention/decode.hip that do not spill registers. */
export function decodeBlockHeads(
  type: KvCacheType,
  { heads, kvHeads, keyWidth, valueWidth }: AttentionOperation,
): number {
  const widestBytes = Math.max(rowBytes(type, keyWidth), rowBytes(type, valueWidth));
  return Math.min(heads / kvHeads, widestBytes > LANES_OF_ROW * CHUNK_BYTES ? 2 : 4);
}

/** Floats that split attention passes to the combining kernel: weighted values, and two for each head and split. */
export function partialFloats(
  tokens: number,
  splits: number,
  { heads, valueWidth }: Pick<AttentionOperation, "heads" | "valueWidth">,
): { readonly values: number; readonly weights: number } {
  const parts = tokens * heads * splits;
  return { values: parts * valueWidth, weights: parts * 2 };
}

/**
 * RoPE's frequency divisors in the form that attention/rope.hip reads: for each pair the nearest f32, and the
 * remainder.
 */
export function packStretches(stretches: readonly number[]): Float32Array {
  return Float32Array.from(stretches.flatMap((stretch) => [stretch, stretch - Math.fround(stretch)]));
}

/** Where kernels find a KV cache; zeros if there is none. */
export interface StepCache {
  readonly address: bigint;
  readonly blocks: number;
  readonly blockTokens: number;
}
