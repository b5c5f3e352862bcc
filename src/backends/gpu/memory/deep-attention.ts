// Shapes of decode attention over long sequences, or over many, the host's counterpart of kernels/attention/deep-decode.hip and
// deep-parts.h: waves and stages of a block, so that both fit into its shared memory, and how many parts a token's
// positions are divided into.

import type { AttentionOperation } from "../../../graph/operation.js";
import type { KvCacheType } from "../../contract.js";
import type { GpuProperties } from "../drivers/shared/driver.js";
import { SPLIT_POSITIONS, visibleSplits } from "./kv-layout.js";

/** What of a device the choice depends on. */
export interface DeepDevice extends Pick<GpuProperties, "sharedBytes" | "multiprocessors"> {
  /** Whether copies to shared memory can run in the background. */
  readonly copiesInBackground: boolean;
}

type DeepOperation = Pick<AttentionOperation, "heads" | "kvHeads" | "keyWidth" | "valueWidth" | "valuesInKeys">;

/** How attention/deep-decode.hip works on a device. */
export interface DeepShape {
  readonly defines: Readonly<Record<"WAVES" | "STAGES" | "TILE_POSITIONS", number>>;
  readonly sharedBytes: number;
  /** Blocks that share a part of the positions: kv heads × blocks of query heads. */
  readonly blocks: number;
  /** Parts that a token's positions are divided into, at most. */
  readonly mostParts: number;
  /**
   * Sequences of a step from which on a block for each of their kv heads and groups of query heads fills the device often
   * enough.
   */
  readonly wholeTokens: number;
}

interface ShapeChoice {
  readonly waves: number;
  readonly stages: number;
}

/** kHeads of kernels/attention/deep-decode.hip. */
const BLOCK_HEADS = 8;
/** kShortestPart and kPartUnit of kernels/attention/deep-parts.h. */
const SHORTEST_PART = 256;
const PART_UNIT = 64;
/** kBlockColumns of kernels/attention/deep-combine.hip. */
const COMBINED_COLUMNS = 64;
/** Steps of the matrix units: widths are multiples of it. */
const STEP_COLUMNS = 16;
const WIDEST_HEAD = 256;
/** Heads up to this width have tiles of 32 positions and not 16. */
const NARROW_HEAD = 64;
/** Splits of attention/decode.hip from which on this form is faster, by the widest head of an operation. */
const MIN_DEEP_SPLITS = [
  { width: 64, splits: 16 },
  { width: 128, splits: 32 },
  { width: 256, splits: 64 },
] as const;
/** Splits of the longest sequence of a step, up to which one block can have all positions of a head. */
const MOST_WHOLE_SPLITS = 32;
/** Blocks of a multiprocessor, at most: one begins and ends while another one reads. */
const MOST_RESIDENT = 2;
/**
 * How often blocks that have all positions of a head fill the device, at least: while the last of them run, most of it is idle.
 * On an H200 64 sequences of Llama-3-8B (1.9 times) take 5.24 ms a step so and 4.95 with parts, 128 (3.9 times) 7.33 and 7.77.
 */
const LEAST_ROUNDS = 3;
/** Devices with more shared memory a block have room for several stages; all of those have matrix units. */
const PLAIN_SHARED_BYTES = 65_536;
/** Shared memory beside stages and queries: the token's own rows, rotations, the waves' highest scores. */
const OTHER_BYTES = 4096;
/** Per wave without background copies: scores and weights, and room to multiply in if there are no matrix units. */
const PLAIN_WAVE_BYTES = 3072;

/** Of devices that copy in the background, the best first. */
const STAGED_CHOICES: readonly ShapeChoice[] = [
  { waves: 4, stages: 3 },
  { waves: 4, stages: 2 },
  { waves: 2, stages: 2 },
];
/** Of all others: the next tile waits in registers. */
const PLAIN_CHOICES: readonly ShapeChoice[] = [
  { waves: 4, stages: 1 },
  { waves: 2, stages: 1 },
];

/** The shape for these heads; undefined if attention/decode.hip is the kernel for sequences of every length. */
export function deepShape(type: KvCacheType, operation: DeepOperation, device: DeepDevice): DeepShape | undefined {
  const { heads, kvHeads, keyWidth, valueWidth, valuesInKeys = false } = operation;
  const isWhole = keyWidth % STEP_COLUMNS === 0 && valueWidth % STEP_COLUMNS === 0;
  if (type !== "f16" || valuesInKeys || !isWhole || Math.max(keyWidth, valueWidth) > WIDEST_HEAD) return undefined;
  const isStaged = device.copiesInBackground && device.sharedBytes > PLAIN_SHARED_BYTES;
  for (const { waves, stages } of isStaged ? STAGED_CHOICES : PLAIN_CHOICES) {
    const tile = stages > 2 && Math.max(keyWidth, valueWidth) <= NARROW_HEAD ? 32 : 16;
    const sharedBytes = sharedBytesOf(operation, { waves, stages }, tile);
    const allBytes = sharedBytes + OTHER_BYTES + (isStaged ? 0 : waves * PLAIN_WAVE_BYTES);
    if (allBytes > device.sharedBytes) continue;
    const blocks = kvHeads * Math.ceil(heads / kvHeads / BLOCK_HEADS);
    const resident = Math.min(MOST_RESIDENT, Math.floor(device.sharedBytes / sharedBytes));
    return {
      defines: { WAVES: waves, STAGES: stages, TILE_POSITIONS: tile },
      sharedBytes,
      blocks,
      wholeTokens: Math.ceil((LEAST_ROUNDS * device.multiprocessors * resident) / blocks),
      mostParts: Math.max(1, Math.floor((device.multiprocessors * resident) / blocks)),
    };
  }
  return undefined;
}

/** Whether a step whose longest sequence has `splits` splits takes this form; rounded up as buckets of steps are. */
export function isDeep(
  operation: Pick<AttentionOperation, "keyWidth" | "valueWidth" | "window" | "chunk">,
  splits: number,
): boolean {
  const rounded = 2 ** Math.ceil(Math.log2(Math.max(1, splits)));
  const widest = Math.max(operation.keyWidth, operation.valueWidth);
  const least = MIN_DEEP_SPLITS.find(({ width }) => widest <= width);
  return least !== undefined && visibleSplits(operation, rounded) >= least.splits;
}

/**
 * Whether a step has so many sequences that a block for each of their kv heads keeps the device busy, and none so long
 * that one block would be at it long after the others.
 */
export function fillsDevice(
  { wholeTokens }: DeepShape,
  operation: Pick<AttentionOperation, "window" | "chunk">,
  { tokens, splits }: { readonly tokens: number; readonly splits: number },
): boolean {
  return tokens >= wholeTokens && visibleSplits(operation, splits) <= MOST_WHOLE_SPLITS;
}

/** Maximum number of parts of a token that attends to the positions of `splits` splits. */
export function deepParts({ mostParts }: DeepShape, splits: number): number {
  return Math.min(mostParts, Math.ceil((splits * SPLIT_POSITIONS + PART_UNIT) / SHORTEST_PART));
}

/** Blocks of attention/deep-combine.hip for each head: kColumnBlocks there. */
export function deepCombinedBlocks(valueWidth: number): number {
  return Math.ceil(valueWidth / COMBINED_COLUMNS);
}

/** kSharedBytes of kernels/attention/deep-decode.hip. */
function sharedBytesOf(
  { keyWidth, valueWidth }: DeepOperation,
  { waves, stages }: ShapeChoice,
  tilePositions: number,
): number {
  const strideBytes = (width: number): number => (width + 8) * 2;
  const stagesBytes = waves * stages * tilePositions * (strideBytes(keyWidth) + strideBytes(valueWidth));
  const resultBytes = waves * BLOCK_HEADS * (valueWidth + 4) * 4;
  return Math.max(stagesBytes, resultBytes) + 2 * BLOCK_HEADS * strideBytes(keyWidth);
}
