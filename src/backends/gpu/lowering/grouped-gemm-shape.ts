// How matmul/grouped-gemm.hip and matmul/grouped-wide.hip work on a tile of slots: weights in registers, stages of input, and
// blocks that a multiprocessor has registers for. The tile itself is the order's (expert-tiles.ts), which launches share.

import type { DriverKind } from "../drivers/shared/driver.js";
import type { Defines } from "../kernels/kernel-source.js";
import type { TileTokens } from "./gemm-shape.js";
import type { ParametersOf } from "./kernel-families.js";

const THREADS = 128;
const MULTIPROCESSOR_REGISTERS = 65_536;
/** Weight blocks that the lanes of a wave hold of one line, where there are most, and the bytes of their input. */
const MAX_SHARES = 4;
const BLOCK_HALF_BYTES = 64;
/** Slabs of input: three in shared memory where copies run by themselves; elsewhere one, and the next in registers. */
const STAGES = { cuda: 3, hip: 2 } as const;
const MIN_STAGES = 2;
/** Slabs of weights in registers: two while there is room for them beside the sums. */
const PREFETCH: Readonly<Record<TileTokens, number>> = { 16: 2, 32: 2, 64: 1, 128: 1 };
/** Blocks that a multiprocessor of NVIDIA's shall have registers for. */
const RESIDENT_BLOCKS: Readonly<Record<TileTokens, number>> = { 16: 3, 32: 3, 64: 3, 128: 2 };
/** Plain weights take more registers than the others, and so do wide products. */
const MIN_RESIDENT_BLOCKS = 2;
/** Registers of a thread beside its sums, which are as many as the tile has slots; and of wide products, which decode ahead. */
const OTHER_REGISTERS = 64;
const WIDE_REGISTERS = 96;
const WIDE_STAGES = 3;
/** Chunks of a slab's row. */
const SLAB_CHUNKS = 16;
const CHUNK_BYTES = 16;
/** What the kernel's tables take of a block's shared memory at most. */
const TABLE_BYTES = 2048;

export type GroupedGemmParameters = ParametersOf<"grouped-gemm">;

export interface GroupedGemmRequest {
  readonly tile: TileTokens;
  /** Whether products are wide: matmul/grouped-wide.hip. */
  readonly wide: boolean;
  /** Whether weights are plain floats, and the input split rows. */
  readonly plain: boolean;
  /** Tiles of tokens of a shared expert that a block has. */
  readonly parts: number;
  readonly kind: DriverKind;
  /** That a block can have. */
  readonly sharedBytes: number;
}

export interface GroupedGemmShape {
  readonly defines: Defines;
  readonly sharedBytes: number;
}

/** Whether a block has shared memory enough for wide products of tiles of this size. */
export function fitsWideTile(tile: TileTokens, sharedBytes: number): boolean {
  return wideBytes(tile, WIDE_STAGES) + TABLE_BYTES <= sharedBytes;
}

/** A chunk of padding keeps neighbouring chunks in different banks. */
function wideBytes(tile: TileTokens, stages: number): number {
  return stages * SLAB_CHUNKS * (tile + 1) * CHUNK_BYTES;
}

/** What the formulas take. */
export function usualGroupedGemmParameters({ tile, wide, plain, kind }: GroupedGemmRequest): GroupedGemmParameters {
  return {
    prefetch: wide || plain ? 1 : PREFETCH[tile],
    resident: plain || wide || kind !== "cuda" ? MIN_RESIDENT_BLOCKS : RESIDENT_BLOCKS[tile],
    stages: wide ? WIDE_STAGES : STAGES[kind],
  };
}

/** Whether a launch can be cut so. */
export function isGroupedGemmShape(request: GroupedGemmRequest, parameters: GroupedGemmParameters): boolean {
  const { wide, plain, kind, sharedBytes } = request;
  const { prefetch, resident, stages } = parameters;
  const isFetched = prefetch === 1 || (!wide && !plain);
  // Where copies do not run by themselves, there is nothing to gain by more stages; wide products have them all the same.
  const isStaged = stages >= MIN_STAGES && (wide || kind === "cuda" || stages === STAGES.hip);
  return (
    isFetched &&
    isStaged &&
    hasRegisters(request, resident) &&
    groupedGemmShape(request, parameters).sharedBytes + TABLE_BYTES <= sharedBytes
  );
}

function hasRegisters({ tile, wide, plain, kind }: GroupedGemmRequest, resident: number): boolean {
  if (resident === MIN_RESIDENT_BLOCKS) return true;
  const registers = tile + (wide ? WIDE_REGISTERS : OTHER_REGISTERS);
  return kind === "cuda" && !plain && registers * THREADS * resident <= MULTIPROCESSOR_REGISTERS;
}

export function groupedGemmShape(
  { tile, wide, parts, kind }: GroupedGemmRequest,
  { prefetch, resident, stages }: GroupedGemmParameters,
): GroupedGemmShape {
  const shared = wide || kind === "cuda" ? stages : 1;
  return {
    defines: {
      ...(wide ? { STAGES: shared, MATRIX_LAYOUT: 80 } : { STAGES: shared, PREFETCH: prefetch }),
      ...(kind === "cuda" ? { RESIDENT_BLOCKS: resident } : {}),
    },
    sharedBytes: wide ? wideBytes(tile, shared) : shared * parts * tile * MAX_SHARES * BLOCK_HALF_BYTES,
  };
}
