// Sizes of the KV cache and of attention launches: the host's counterpart of kernels/attention/kv-cache.h, and what
// those kernels do not support. Cache groups follow one another, and in a group its layers; a layer is keys, key scales
// (q8_0), values, value scales, each plane rounded up.

import { kvGroups, kvPlaces } from "../../../graph/cache-groups.js";
import type { AttentionOperation, RopeOperation } from "../../../graph/operation.js";
import { type KvLayerShape, kvLayers, type KvShape } from "../../../graph/program.js";
import { groupBlocks } from "../../cache-size.js";
import type { KvCacheOptions, KvCacheType, Support } from "../../contract.js";
import { supportsHostKvCache } from "../../host-memory.js";
import type { DriverKind } from "../drivers/shared/driver.js";
import { roundUp } from "./device-memory.js";
import { stateSlotsBytes } from "./state-layout.js";

/** Positions per thread block of split attention: kSplitPositions of kernels/device/step.h. */
export const SPLIT_POSITIONS = 128;
/** Maximum tokens per tile of tiled attention: kTileTokens of kernels/attention/tiled.hip. */
export const TILE_TOKENS = 64;

const PLANE_ALIGNMENT_BYTES = 256;
/** Room for rounding up the beginning of a layer and of each of its four planes. */
const LAYER_PADDING_BYTES = 5 * PLANE_ALIGNMENT_BYTES;
const CHUNK_BYTES = 16;
const SCALE_COLUMNS = 32;
const SCALE_BYTES = 2;
/** Wider heads would not fit the registers of a block. */
const WIDEST_HEAD = 576;
/** Heads wider than this take the wide forms of kernels: WIDE_HEADS of kernels/attention/rows.h. */
const WIDE_HEAD = 256;
/** Default number of query heads per block, of narrow and wide heads: kBlockHeads of kernels/attention/rows.h. */
const BLOCK_HEADS = 16;
const WIDE_BLOCK_HEADS = 8;
/** Columns per block of attention/combine.hip, of wide heads, and over many splits. */
const COMBINED_COLUMNS = 128;
export const FEW_COMBINED_COLUMNS = 32;
/** Lanes that read a row together, if it is no wider than their chunks. */
const LANES_OF_ROW = 16;
/** Widths of heads whose rows the matrix units take from registers: ATTENTION_MATRIX of kernels/attention/rows.h. */
const MATRIX_WIDTHS = [64, 128, 256];
/** Kernels count rows and cells in 32 bits. */
const MAX_ROWS = 2 ** 31 - 1;
/** Maximum number of blocks of a grid along y and z. */
const MAX_GRID = 65535;

const TYPES: Readonly<Record<KvCacheType, { readonly define: number; readonly columnBytes: number }>> = {
  f32: { define: 0, columnBytes: 4 },
  f16: { define: 1, columnBytes: 2 },
  q8_0: { define: 2, columnBytes: 1 },
};

/** A plane of a layer, from its first block on. */
interface KvPlane {
  readonly byteOffset: number;
  /** From one block to the next. */
  readonly blockBytes: number;
}

/** The memory of a cache group. */
interface KvGroupLayout {
  readonly byteOffset: number;
  readonly blocks: number;
  /** Of all its layers: keys, key scales, values and value scales, those that they have. */
  readonly planes: readonly KvPlane[];
}

interface KvLayout {
  readonly groups: readonly KvGroupLayout[];
  /** The planes of each layer. */
  readonly layers: readonly (readonly KvPlane[])[];
  /** Where the recurrent states begin. */
  readonly statesOffset: number;
  readonly sizeBytes: number;
}

/** Sizes and offsets of a KV cache on the device. */
export function kvLayout(options: KvCacheOptions): KvLayout {
  const shapes = kvLayers(options);
  const layers: (readonly KvPlane[])[] = [];
  const groups: KvGroupLayout[] = [];
  const counts = groupBlocks(options);
  let groupStart = 0;
  for (const [group, { layers: members }] of kvGroups(options).entries()) {
    const blocks = counts[group];
    const places = layerPlaces(options, shapes, members);
    const startOf = (index: number): number =>
      groupStart + roundUp(blocks * places[index].bytes, PLANE_ALIGNMENT_BYTES) + places[index].paddingBytes;
    for (const [index, layer] of members.entries()) {
      let byteOffset = startOf(index);
      layers[layer] = planeBytes(options, shapes[layer]).map((blockBytes) => {
        const plane = { byteOffset, blockBytes };
        byteOffset = roundUp(byteOffset + blocks * blockBytes, PLANE_ALIGNMENT_BYTES);
        return plane;
      });
    }
    groups.push({ byteOffset: groupStart, blocks, planes: members.flatMap((layer) => layers[layer]) });
    groupStart = startOf(members.length);
  }
  const statesBytes = stateSlotsBytes(options);
  const statesOffset = statesBytes === 0 ? groupStart : roundUp(groupStart, PLANE_ALIGNMENT_BYTES);
  return { groups, layers, statesOffset, sizeBytes: statesOffset + statesBytes };
}

/** Where the kernels of a step find the groups of a cache that lies at this address. */
export function stepCacheAt(address: bigint, options: KvCacheOptions): StepCache {
  const { groups, statesOffset } = kvLayout(options);
  return {
    blockTokens: options.blockTokens,
    groups: groups.map(({ byteOffset, blocks }) => ({ address: address + BigInt(byteOffset), blocks })),
    ...(options.states === undefined ? {} : { states: address + BigInt(statesOffset) }),
  };
}

/** Bytes of one block in each plane of a layer. */
function planeBytes(
  { type, blockTokens }: Pick<KvCacheOptions, "type" | "blockTokens">,
  { kvHeads, keyWidth, valueWidth }: KvLayerShape,
): readonly number[] {
  return [
    rowBytes(type, keyWidth),
    scaleBytes(type, keyWidth),
    rowBytes(type, valueWidth),
    scaleBytes(type, valueWidth),
  ].flatMap((bytes) => (bytes === 0 ? [] : [kvHeads * blockTokens * bytes]));
}

/** Where a layer begins in its group, as kernels compute it from the number of blocks: kernels/attention/kv-cache.h. */
export interface KvLayerPlace {
  /** Of one block in all layers of the group before it. */
  readonly bytes: number;
  /** Between the layers before it, so that planes can begin at aligned addresses. */
  readonly paddingBytes: number;
}

export function kvLayerPlace(options: Omit<KvCacheOptions, "blocks">, layer: number): KvLayerPlace {
  const groups = kvGroups(options);
  const { group, index } = kvPlaces(groups)[layer];
  return layerPlaces(options, kvLayers(options), groups[group].layers)[index];
}

/** The places of the layers of a group, and last of their end. */
function layerPlaces(
  options: Omit<KvCacheOptions, "blocks">,
  shapes: readonly KvLayerShape[],
  members: readonly number[],
): readonly KvLayerPlace[] {
  const planes = members.map((layer) => planeBytes(options, shapes[layer]));
  const isEven = planes.every((layer) => layer.every((bytes) => bytes % PLANE_ALIGNMENT_BYTES === 0));
  let bytes = 0;
  const ends = planes.map((layer) => (bytes += layer.reduce((total, plane) => total + plane, 0)));
  return [0, ...ends].map((end, index) => ({ bytes: end, paddingBytes: isEven ? 0 : index * LAYER_PADDING_BYTES }));
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
  { keyWidth, valueWidth }: HeadWidths,
  { type, blockTokens }: { readonly type: KvCacheType; readonly blockTokens: number },
): Readonly<Record<"KV_TYPE" | "KEY_WIDTH" | "VALUE_WIDTH" | "BLOCK_TOKENS", number>> {
  return { KV_TYPE: TYPES[type].define, KEY_WIDTH: keyWidth, VALUE_WIDTH: valueWidth, BLOCK_TOKENS: blockTokens };
}

/** Whether the GPU kernels support a KV cache with these options, or why not. */
export function supportsGpuKvCache(options: KvCacheOptions): Support {
  const even = supportsHostKvCache(options);
  if (even !== true) return even;
  const mostHeads = Math.max(0, ...kvLayers(options).map(({ kvHeads }) => kvHeads));
  const rows = options.blocks * options.blockTokens * mostHeads;
  if (rows > MAX_ROWS)
    return { reason: `a KV cache on the GPU has at most ${MAX_ROWS} rows a layer, and this one would have ${rows}` };
  return true;
}

/** Whether the attention kernels support this operation, or why not. */
export function supportsAttention(operation: AttentionOperation): Support {
  const { heads, kvHeads, keyWidth, valueWidth, valuesInKeys = false } = operation;
  const widest = Math.max(keyWidth, valueWidth);
  if (valuesInKeys && keyWidth <= valueWidth)
    return { reason: `attention on the GPU keeps values in wider keys only, not ${valueWidth} columns in ${keyWidth}` };
  if (widest > WIDEST_HEAD)
    return { reason: `attention on the GPU supports heads of up to ${WIDEST_HEAD} columns, and these have ${widest}` };
  if (heads % kvHeads !== 0)
    return { reason: `${heads} query heads cannot share ${kvHeads} key and value heads evenly` };
  if (heads > MAX_GRID)
    return { reason: `attention on the GPU supports at most ${MAX_GRID} heads, and there are ${heads}` };
  return true;
}

/** Whether the RoPE kernel supports this operation, or why not. */
export function supportsRope({ headWidth, rotaryWidth, firstColumn = 0 }: RopeOperation): Support {
  if (rotaryWidth % 2 === 0 && firstColumn + rotaryWidth <= headWidth) return true;
  return {
    reason: `RoPE rotates pairs of columns within a head: ${rotaryWidth} columns of ${headWidth} cannot be rotated`,
  };
}

export type HeadWidths = Pick<KvShape, "keyWidth" | "valueWidth">;

/** Whether heads take the wide forms of kernels. */
export function isWide({ keyWidth, valueWidth }: HeadWidths): boolean {
  return Math.max(keyWidth, valueWidth) > WIDE_HEAD;
}

/** Blocks of attention/combine.hip for each head, with its own choice of columns per block: kColumnBlocks there. */
export function combinedBlocks(valueWidth: number): number {
  return valueWidth <= WIDE_HEAD ? 1 : Math.ceil(valueWidth / COMBINED_COLUMNS);
}

/** Number of splits of a sequence of `positions` positions. */
export function splitsOf(positions: number): number {
  return Math.ceil(positions / SPLIT_POSITIONS);
}

/**
 * Maximum number of splits with positions that a token attends to, in a sequence of `splits`: with a window or chunks
 * they begin at the token's first visible position.
 */
export function visibleSplits(
  { window = Number.POSITIVE_INFINITY, chunk = Number.POSITIVE_INFINITY }: Pick<AttentionOperation, "window" | "chunk">,
  splits: number,
): number {
  const positions = Math.min(window, chunk);
  return Math.min(splits, Math.ceil(positions / SPLIT_POSITIONS));
}

/** Blocks along the y axis of split attention's grid: each has one kv head and up to `blockHeads` query heads. */
export function splitRows(
  { heads, kvHeads, keyWidth, valueWidth }: Pick<AttentionOperation, "heads" | "kvHeads" | "keyWidth" | "valueWidth">,
  blockHeads: number = isWide({ keyWidth, valueWidth }) ? WIDE_BLOCK_HEADS : BLOCK_HEADS,
): number {
  return kvHeads * Math.ceil(heads / kvHeads / blockHeads);
}

/**
 * Query heads per thread block of attention/decode.hip, the most first: as many as do not spill registers, fewer if there
 * would be too few blocks. More heads read rows of the cache fewer times.
 */
export function decodeBlockHeads(
  type: KvCacheType,
  { heads, kvHeads, keyWidth, valueWidth }: AttentionOperation,
  kind: DriverKind,
): readonly number[] {
  const widestBytes = Math.max(rowBytes(type, keyWidth), rowBytes(type, valueWidth));
  const usesMatrixUnits =
    kind === "cuda" && type === "f16" && [keyWidth, valueWidth].every((width) => MATRIX_WIDTHS.includes(width));
  const most = usesMatrixUnits ? 8 : widestBytes > LANES_OF_ROW * CHUNK_BYTES ? 2 : 4;
  const choices = [most, Math.min(most, 4), 1].map((count) => Math.min(count, heads / kvHeads));
  return choices.filter((count, index) => choices.indexOf(count) === index);
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

/** Where kernels find the groups of a KV cache; none if there is no cache. */
export interface StepCache {
  readonly groups: readonly { readonly address: bigint; readonly blocks: number }[];
  readonly blockTokens: number;
  /** Where the recurrent states begin; absent if the program has none. */
  readonly states?: bigint | undefined;
}
