// Launches of matmul/gemm.hip: half rows times up to three matrices on the matrix units, or gate and up as one.

import type { Activation } from "../../../graph/operation.js";
import type { Defines } from "../kernels/kernel-source.js";
import type { LaunchSize, LaunchSpec } from "./launch.js";
import {
  TILE_TOKEN_COUNTS,
  type GemmParameters,
  type GemmRequest,
  type GemmShape,
  gemmShape,
  isGemmShape,
  type TileTokens,
  tileWaves,
  usualGemmParameters,
  waveCount,
} from "./gemm-shape.js";
import type { TunedVariant } from "./kernel-choices.js";
import { type LoweringContext, rowsOf } from "./context.js";
import type { MatmulInput } from "./inputs.js";
import { matmulResults } from "./launch-results.js";
import { type Matmul, MAX_LAUNCHED, matmulArguments, matmulDefines } from "./matmul.js";

const FILE = "matmul/gemm";

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
  const types = Object.fromEntries(matmuls.map(({ type }, index) => [`TYPE${index}`, type]));
  const definesFor = (count: TileTokens, parameters: GemmParameters): Defines => {
    const waves = tileWaves(count, parameters);
    return {
      ...types,
      TOKENS: count,
      HALVES: waves.halves,
      ROW_WAVES: waves.rows,
      DEPTH_WAVES: waves.depth,
      WAVES: waveCount(waves),
      STAGES: gemmShape(request, count, count, waves).stages,
      MATMULS: matmuls.length,
      GATED: gated ? 1 : 0,
      BIAS_TYPE: matmuls.find(({ biasType }) => biasType !== undefined)?.biasType ?? 0,
      ...matmulDefines(matmuls, activation),
    };
  };
  const tuned = TILE_TOKEN_COUNTS.map((count): TunedVariant<GemmParameters> =>
    context.choices.variant<GemmParameters>({
      family: "gemm",
      key: `${gated ? "gated " : ""}${Object.values(types).join(",")} ${request.rows.join("+")}x${width} t${count}`,
      usual: usualGemmParameters(request, count),
      isValid: (parameters) => isGemmShape(request, count, parameters),
      moduleOf: (parameters) => ({ file: FILE, defines: definesFor(count, parameters) }),
    }),
  );
  const cut = (tile: number, tokens: number): GemmShape => {
    const { parameters } = tuned[tile];
    const count = TILE_TOKEN_COUNTS[tile];
    return gemmShape(request, count, tokens, tileWaves(count, parameters), parameters.splits);
  };
  const shapeFor = (size: LaunchSize): GemmShape => {
    const tokens = rowsOf(size, rows);
    return cut(tileOf(tokens), tokens);
  };
  return {
    label: gated ? "gate and up, gemm" : "gemm",
    file: FILE,
    variants: TILE_TOKEN_COUNTS.map((count, tile) => ({
      kernel: "gemm",
      defines: definesFor(count, tuned[tile].parameters),
      sharedBytes: cut(tile, count).sharedBytes,
      tuned: tuned[tile],
    })),
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
    recut: (choices) => gemmLaunch(context.withChoices(choices), input, matmuls, activation),
    results: matmulResults(matmuls, gated),
    sized: (size) => ({ splits: shapeFor(size).splits }),
    grid: (size) => {
      const { blocks, splits, tokenBlocks } = shapeFor(size);
      return [blocks, tokenBlocks, splits];
    },
  };
}
