// Launches of matmul/wide-gemm.hip: half rows in panels times up to three matrices by wide products, or gate and up as one.

import type { Activation } from "../../../graph/operation.js";
import { type LoweringContext, rowsOf } from "./context.js";
import type { MatmulInput } from "./inputs.js";
import type { LaunchSize, LaunchSpec } from "./launch.js";
import { type Matmul, MAX_LAUNCHED, matmulArguments, matmulDefines } from "./matmul.js";
import {
  PANEL_TOKENS,
  panelIndex,
  wideGemmBlocks,
  type WideGemmRequest,
  type WideGemmShape,
  wideGemmShape,
} from "./wide-gemm-shape.js";

/** Lanes hold operands as NVIDIA's do (kernels/device/matrix-unit.h). */
const MATRIX_LAYOUT = 80;

type PanelInput = Extract<MatmulInput, { form: "panels" }>;

export function wideGemmLaunch(
  context: LoweringContext,
  input: PanelInput,
  matmuls: readonly Matmul[],
  activation?: Activation,
): LaunchSpec {
  const [{ width, rows }] = matmuls;
  const gated = activation !== undefined;
  const { multiprocessors, sharedBytes } = context.options.device;
  const { regions } = context;
  const request: WideGemmRequest = {
    rows: gated ? [matmuls[0].outputs] : matmuls.map(({ outputs }) => outputs),
    width,
    gated,
    multiprocessors,
    sharedBytes,
  };
  const types = Object.fromEntries(matmuls.map(({ type }, index) => [`TYPE${index}`, type]));
  const shapes = PANEL_TOKENS.map((tokens): WideGemmShape => wideGemmShape(request, tokens));
  const blocksOf = (size: LaunchSize): number => {
    const tokens = rowsOf(size, rows);
    return wideGemmBlocks(request, shapes[panelIndex(tokens)], tokens);
  };
  return {
    label: gated ? "gate and up, wide gemm" : "wide gemm",
    file: "matmul/wide-gemm",
    variants: PANEL_TOKENS.map((tokens, index) => ({
      kernel: "wide_gemm",
      defines: {
        ...types,
        TOKENS: tokens,
        TEAMS: shapes[index].teams,
        RING: shapes[index].ring,
        STAGES: shapes[index].stages,
        MATMULS: matmuls.length,
        GATED: gated ? 1 : 0,
        MATRIX_LAYOUT,
        BIAS_TYPE: matmuls.find(({ biasType }) => biasType !== undefined)?.biasType ?? 0,
        ...matmulDefines(matmuls, activation),
      },
      sharedBytes: shapes[index].sharedBytes,
    })),
    choose: (size) => panelIndex(rowsOf(size, rows)),
    arguments: {
      ...matmulArguments(matmuls, MAX_LAUNCHED.gemm),
      halves: input.halves,
      row_scales: input.rowScales,
      row_count: context.rowCount(rows),
      partial: regions.tilePartial,
      arrivals: regions.tileArrivals,
      width,
    },
    sized: (size) => ({ blocks: blocksOf(size) }),
    grid: (size) => [blocksOf(size), 1, 1],
  };
}
