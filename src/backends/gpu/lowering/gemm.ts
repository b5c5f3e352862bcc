// Launches of matmul/gemm.hip: half rows times up to three matrices on the matrix units, or gate and up as one.

import type { Activation } from "../../../graph/operation.js";
import type { LaunchSize, LaunchSpec } from "./launch.js";
import { TILE_TOKEN_COUNTS, type GemmRequest, type GemmShape, gemmShape, gemmWaves, waveCount } from "./gemm-shape.js";
import { type LoweringContext, rowsOf } from "./context.js";
import type { MatmulInput } from "./inputs.js";
import { type Matmul, MAX_LAUNCHED, matmulArguments, matmulDefines } from "./matmul.js";

type HalfInput = Extract<MatmulInput, { form: "half" }>;

/** Index of the smallest tile that holds `tokens` tokens; more than the largest take several blocks. */
function tileOf(tokens: number): number {
  const index = TILE_TOKEN_COUNTS.findIndex((count) => tokens <= count);
  return index === -1 ? TILE_TOKEN_COUNTS.length - 1 : index;
}

export function gemmLaunch(
  context: LoweringContext,
  input: HalfInput,
  matmuls: readonly Matmul[],
  activation?: Activation,
): LaunchSpec {
  const [{ width, rows }] = matmuls;
  const gated = activation !== undefined;
  const { device } = context.options;
  const { regions } = context;
  const request: GemmRequest = {
    rows: gated ? [matmuls[0].outputs] : matmuls.map(({ outputs }) => outputs),
    width,
    gated,
    multiprocessors: device.multiprocessors,
    kind: context.options.kind,
    mostBlocks: regions.tileBlocks,
  };
  const waves = TILE_TOKEN_COUNTS.map((count) => gemmWaves(request, count));
  const shapeFor = (size: LaunchSize): GemmShape => {
    const tokens = rowsOf(size, rows);
    const tile = tileOf(tokens);
    return gemmShape(request, TILE_TOKEN_COUNTS[tile], tokens, waves[tile]);
  };
  const types = Object.fromEntries(matmuls.map(({ type }, index) => [`TYPE${index}`, type]));
  return {
    label: gated ? "gate and up, gemm" : "gemm",
    file: "matmul/gemm",
    variants: TILE_TOKEN_COUNTS.map((count, tile) => {
      const { stages, sharedBytes } = gemmShape(request, count, count, waves[tile]);
      return {
        kernel: "gemm",
        defines: {
          ...types,
          TOKENS: count,
          HALVES: waves[tile].halves,
          ROW_WAVES: waves[tile].rows,
          DEPTH_WAVES: waves[tile].depth,
          WAVES: waveCount(waves[tile]),
          STAGES: stages,
          MATMULS: matmuls.length,
          GATED: gated ? 1 : 0,
          BIAS_TYPE: matmuls.find(({ biasType }) => biasType !== undefined)?.biasType ?? 0,
          ...matmulDefines(matmuls, activation),
        },
        sharedBytes,
      };
    }),
    choose: (size) => tileOf(rowsOf(size, rows)),
    arguments: {
      ...matmulArguments(matmuls, MAX_LAUNCHED.gemm),
      halves: input.halves,
      row_scales: input.rowScales,
      halves_stride: input.stride,
      row_count: context.rowCount(rows),
      partial: regions.tilePartial,
      arrivals: regions.tileArrivals,
      width,
    },
    sized: (size) => ({ splits: shapeFor(size).splits }),
    grid: (size) => {
      const { blocks, splits, tokenBlocks } = shapeFor(size);
      return [blocks, tokenBlocks, splits];
    },
  };
}
