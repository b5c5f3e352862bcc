// Launches of matmul/gemm.hip, half rows times up to three matrices on the matrix units, or gate and up as one, and of
// matmul/int8-gemm.hip, which does the same with quantized rows.

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

export type GemmInput = Extract<MatmulInput, { form: "half" | "quantized" }>;

const KERNELS = {
  half: { family: "gemm", file: "matmul/gemm", kernel: "gemm", label: "gemm" },
  quantized: { family: "int8-gemm", file: "matmul/int8-gemm", kernel: "int8_gemm", label: "int8 gemm" },
} as const;

function inputArguments(input: GemmInput): LaunchSpec["arguments"] {
  if (input.form === "quantized") return { values: input.values, scales: input.scales, sums: input.sums };
  return { halves: input.halves, row_scales: input.rowScales, halves_stride: input.stride };
}

/** Index of the smallest tile that holds `tokens` tokens; more than the largest take several blocks. */
function tileOf(tokens: number): number {
  const index = TILE_TOKEN_COUNTS.findIndex((count) => tokens <= count);
  return index === -1 ? TILE_TOKEN_COUNTS.length - 1 : index;
}

export function gemmLaunch(
  context: LoweringContext,
  input: GemmInput,
  matmuls: readonly Matmul[],
  activation?: Activation,
): LaunchSpec {
  const [{ width, rows }] = matmuls;
  const gated = activation !== undefined;
  const { family, file, kernel, label } = KERNELS[input.form];
  const isInt8 = input.form === "quantized";
  const { device } = context.options;
  const { regions } = context;
  const request: GemmRequest = {
    rows: gated ? [matmuls[0].outputs] : matmuls.map(({ outputs }) => outputs),
    width,
    gated,
    multiprocessors: device.multiprocessors,
    kind: context.options.kind,
    mostBlocks: regions.tileBlocks,
    isInt8,
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
      ...(isInt8 ? {} : { STAGES: gemmShape(request, count, count, waves).stages }),
      MATMULS: matmuls.length,
      GATED: gated ? 1 : 0,
      BIAS_TYPE: matmuls.find(({ biasType }) => biasType !== undefined)?.biasType ?? 0,
      ...matmulDefines(matmuls, activation),
    };
  };
  const tuned = TILE_TOKEN_COUNTS.map((count): TunedVariant<GemmParameters> =>
    context.choices.variant<GemmParameters>({
      family,
      key: `${gated ? "gated " : ""}${Object.values(types).join(",")} ${request.rows.join("+")}x${width} t${count}`,
      usual: usualGemmParameters(request, count),
      isValid: (parameters) => isGemmShape(request, count, parameters),
      moduleOf: (parameters) => ({ file, defines: definesFor(count, parameters) }),
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
    label: gated ? `gate and up, ${label}` : label,
    file,
    variants: TILE_TOKEN_COUNTS.map((count, tile) => ({
      kernel,
      defines: definesFor(count, tuned[tile].parameters),
      sharedBytes: cut(tile, count).sharedBytes,
      tuned: tuned[tile],
    })),
    choose: (size) => tileOf(rowsOf(size, rows)),
    arguments: {
      ...matmulArguments(matmuls, MAX_LAUNCHED.gemm),
      ...inputArguments(input),
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
