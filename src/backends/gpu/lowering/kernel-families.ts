// The free parameters of kernels: values that change how fast a kernel is and not what it computes. Each family declares its
// parameters with the candidates that a tuner may try. What a kernel takes without a tuner is decided by a formula beside
// its launch (gemv-shape.ts, gemm-shape.ts and others), found on an H200; a choice replaces the formula for one shape. What
// several launches have to agree on is no free parameter: the tile of slots by which experts are ordered, the parts of
// attention that another launch merges.

/** Values of a family's parameters. */
export type KernelParameters = Readonly<Record<string, number>>;

export interface KernelFamily {
  /** Candidates of each parameter, by its name. */
  readonly parameters: Readonly<Record<string, readonly number[]>>;
  /**
   * Parameters that change the order of sums, and so the last bits of results. They keep the formula's value in
   * deterministic mode.
   */
  readonly reorders: readonly string[];
  /** Valid for every shape, and slow on every card: where a tuner begins if it is tested. */
  readonly poor: KernelParameters;
}

export const KERNEL_FAMILIES = {
  /** matmul/gemv.hip, matmul/gemv-float.hip: rows and waves of a team, weight blocks on their way, threads of a block, and blocks on a multiprocessor up to which each makes one pass. */
  gemv: {
    parameters: {
      rows: [1, 2, 4],
      split: [1, 2, 4],
      depth: [1, 2, 3, 4],
      threads: [128, 256],
      blocks: [4, 8, 16, 32],
    },
    reorders: ["split"],
    poor: { rows: 1, split: 1, depth: 1, threads: 256, blocks: 32 },
  },
  /** matmul/lane-rows.h: rows of a wave on their way to a lane, passes of a block, teams of waves. The width decides how many waves share a row. */
  "lane-gemv": {
    parameters: { rows: [1, 2, 4, 8], passes: [1, 2, 4, 8, 16, 32], teams: [1, 2, 4, 8, 16] },
    reorders: [],
    poor: { rows: 1, passes: 32, teams: 1 },
  },
  /** matmul/gemm.hip: tiles of 16 rows of a wave, waves of a block along rows and along the width, and splits of the width. */
  gemm: {
    parameters: {
      halves: [1, 2],
      rows: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16],
      depth: [1, 2, 4],
      splits: [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16],
    },
    reorders: ["depth", "splits"],
    poor: { halves: 1, rows: 2, depth: 1, splits: 1 },
  },
  /** matmul/int8-gemm.hip: the same. */
  "int8-gemm": {
    parameters: {
      halves: [1],
      rows: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16],
      depth: [1, 2, 4],
      splits: [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16],
    },
    reorders: ["depth", "splits"],
    poor: { halves: 1, rows: 2, depth: 1, splits: 1 },
  },
  /**
   * matmul/wide-gemm.hip: teams of a block that multiply, blocks that share a tile (0: all share the slabs of all tiles), slabs of
   * weights on their way, and stages of input.
   */
  "wide-gemm": {
    parameters: { teams: [2, 3, 4], shares: [0, 1, 2, 4], ring: [2, 4, 6], stages: [2, 3, 4, 6] },
    reorders: ["shares"],
    poor: { teams: 2, shares: 0, ring: 2, stages: 2 },
  },
  /** matmul/grouped-gemv.hip, matmul/grouped-gemv-float.hip: as gemv, for one slot of one token a block. */
  "grouped-gemv": {
    parameters: { rows: [1, 2, 4], split: [1, 2, 4], depth: [1, 2, 3], threads: [128, 256, 512] },
    reorders: ["split"],
    poor: { rows: 1, split: 1, depth: 1, threads: 256 },
  },
  /**
   * matmul/grouped-gemm.hip, matmul/grouped-wide.hip: slabs of weights in registers, blocks that a multiprocessor shall have
   * registers for (NVIDIA's), and slabs of input that a block has room for, the one that waits in registers on AMD's included.
   */
  "grouped-gemm": {
    parameters: { prefetch: [1, 2], resident: [2, 3, 4], stages: [2, 3, 4] },
    reorders: [],
    poor: { prefetch: 1, resident: 2, stages: 2 },
  },
  /** matmul/sorted-gemv.hip: as grouped-gemv, for a tile of slots of one expert a block. */
  "sorted-gemv": {
    parameters: { rows: [1, 2, 4], split: [1, 2, 4], depth: [1, 2, 3], threads: [128, 256, 512] },
    reorders: ["split"],
    poor: { rows: 1, split: 1, depth: 1, threads: 256 },
  },
  /** matmul/expert-sum.hip: rows of a wave, weight blocks on their way to a lane. */
  "expert-sum": {
    parameters: { rows: [1, 2], depth: [1, 2, 3, 4, 6] },
    reorders: [],
    poor: { rows: 2, depth: 1 },
  },
  /** attention/decode.hip: query heads of a block (0: by the number of blocks that the step would have). */
  "decode-attention": {
    parameters: { heads: [0, 1, 2, 4, 8] },
    reorders: [],
    poor: { heads: 1 },
  },
  /** attention/flash.hip: query heads of a block, positions at a time, stages of keys and values. */
  "flash-attention": {
    parameters: { heads: [1, 2], positions: [64, 128], stages: [2, 3] },
    reorders: ["positions"],
    poor: { heads: 1, positions: 64, stages: 2 },
  },
  /** attention/tiled.hip, except in its form for AMD: waves of a block, positions at a time. */
  "tiled-attention": {
    parameters: { waves: [2, 4], positions: [32, 64] },
    reorders: ["positions"],
    poor: { waves: 2, positions: 32 },
  },
} as const satisfies Readonly<Record<string, KernelFamily>>;

export type FamilyName = keyof typeof KERNEL_FAMILIES;
export type ParametersOf<Name extends FamilyName> = Readonly<
  Record<keyof (typeof KERNEL_FAMILIES)[Name]["parameters"], number>
>;

export function isFamilyName(name: string): name is FamilyName {
  return Object.hasOwn(KERNEL_FAMILIES, name);
}

export function familyOf(name: FamilyName): KernelFamily {
  return KERNEL_FAMILIES[name];
}

/** Whether every parameter of the family has an integer within the range of its candidates, and nothing else is there. */
export function areParameters(name: FamilyName, parameters: KernelParameters): boolean {
  const { parameters: declared } = familyOf(name);
  const names = Object.keys(declared);
  const isInRange = (key: string): boolean => {
    const value = parameters[key];
    return Number.isInteger(value) && value >= Math.min(...declared[key]) && value <= Math.max(...declared[key]);
  };
  return (
    Object.keys(parameters).length === names.length &&
    names.every((key) => Object.hasOwn(parameters, key) && isInRange(key))
  );
}
