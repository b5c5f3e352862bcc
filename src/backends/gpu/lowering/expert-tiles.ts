// How the slots of a mixture's tokens are cut into tiles that have one expert each (matmul/expert-order.hip), and the memory
// for their order. There is room for every choice of the router: bounds depend on numbers of tokens and experts alone.

import type { GroupedMatmulOperation, ValueId } from "../../../graph/operation.js";
import type { TensorDescriptor } from "../../../tensor/descriptor.js";
import type { ProgramLimits } from "../../contract.js";
import { TILE_TOKEN_COUNTS, type TileTokens } from "./gemm-shape.js";
import type { MemoryPlace } from "./launch.js";
import type { Scratch } from "./scratch.js";

const INT_BYTES = 4;
/** Expert, first slot, number of slots. */
const TILE_INTS = 3;
/**
 * Slots of an expert, on average, up to which most experts fill one tile only. A tile costs registers, and so waves that
 * wait for weights; a second tile of an expert decodes its weights again.
 */
const MAX_MEAN_SLOTS = [8, 20, 48, Number.POSITIVE_INFINITY] as const;

/** Slots of a tile of matmul/sorted-gemv.hip. */
export const SORTED_TILE_TOKENS = 4;
/**
 * Slots of an expert, on average, up to which dot products take less time than decoding weights for the matrix units. Of
 * the experts that have any, most have one or two then. With 4 on an H200 a step took a sixth longer than on the units.
 */
const MAX_SORTED_MEAN = 2;
/**
 * Larger steps take the matrix units even with few slots an expert on average: on an H200, 64 sequences of
 * Qwen3.5-35B-A3B (two slots an expert) then decode 4,057 instead of 3,314 tokens a second. Presumably because routing is
 * uneven: an expert with many slots has many tiles here, each of which reads its weights.
 */
const MAX_SORTED_TOKENS = 32;

/** Whether steps of this many tokens have few enough slots an expert for matmul/sorted-gemv.hip. */
export function hasFewSlots(tokens: number, used: number, experts: number): boolean {
  return tokens <= MAX_SORTED_TOKENS && tokens * used <= experts * MAX_SORTED_MEAN;
}

/** A grouped matmul whose matrices a router chooses. */
export type RoutedMatmul = GroupedMatmulOperation & { readonly routing: ValueId };

/** Where the sorted slots of one layer lie; layers follow one another in the same memory. */
export interface ExpertOrderRegion {
  readonly slots: MemoryPlace;
  readonly tiles: MemoryPlace;
  readonly tileCount: MemoryPlace;
}

/** Matrices of a grouped matmul. */
export function matrixCount({ matrixRows }: GroupedMatmulOperation, { shape, elements }: TensorDescriptor): number {
  return elements / shape[0] / matrixRows;
}

/** Slots of a tile in steps of this many tokens, as an index of `TILE_TOKEN_COUNTS`. */
export function expertTile(tokens: number, used: number, experts: number): number {
  return MAX_MEAN_SLOTS.findIndex((most) => (tokens * used) / experts <= most);
}

/** The most tiles that the slots of a batch can make, however its tokens are routed. */
export function maxTiles(
  tokens: number,
  used: number,
  experts: number,
  tile: TileTokens | typeof SORTED_TILE_TOKENS,
): number {
  const slots = tokens * used;
  return Math.floor((slots + Math.min(slots, experts) * (tile - 1)) / tile);
}

/** Memory for the sorted slots of the largest step, for whichever of these matmuls has most. */
export function reserveExpertOrder(
  scratch: Scratch,
  matmuls: readonly { readonly operation: RoutedMatmul; readonly weight: TensorDescriptor }[],
  { maxTokens, maxOutputs }: Pick<ProgramLimits, "maxTokens" | "maxOutputs">,
): ExpertOrderRegion {
  const maxRows = Math.max(maxTokens, maxOutputs);
  const most = (bytesOf: (used: number, experts: number) => number): number =>
    matmuls
      .map(({ operation, weight }) => bytesOf(operation.slots, matrixCount(operation, weight)))
      .reduce((largest, bytes) => Math.max(largest, bytes), 0);
  // Of each size of tiles the largest step that has them.
  const tiles = (used: number, experts: number): number =>
    Math.max(
      maxTiles(
        Math.min(maxRows, MAX_SORTED_TOKENS, Math.floor((MAX_SORTED_MEAN * experts) / used)),
        used,
        experts,
        SORTED_TILE_TOKENS,
      ),
      ...TILE_TOKEN_COUNTS.map((tile, index) => {
        const mean = MAX_MEAN_SLOTS[index];
        return maxTiles(Math.min(maxRows, Math.floor((mean * experts) / used)), used, experts, tile);
      }),
    );
  return {
    slots: scratch.reserve(most((used) => maxRows * used * INT_BYTES)),
    tiles: scratch.reserve(most((used, experts) => tiles(used, experts) * TILE_INTS * INT_BYTES)),
    tileCount: scratch.reserve(matmuls.length === 0 ? 0 : INT_BYTES),
  };
}
