// Launches of matmul/wide-gemm.hip: half rows in panels times up to three matrices by wide products, or gate and up as one.

import type { Activation } from "../../../graph/operation.js";
import { type LoweringContext, rowsOf } from "./context.js";
import type { MatmulInput } from "./inputs.js";
import type { LaunchSize, LaunchSpec } from "./launch.js";
import { halfResults, matmulResults } from "./launch-results.js";
import { type Matmul, MAX_LAUNCHED, matmulArguments, matmulDefines } from "./matmul.js";
import type { Defines } from "../kernels/kernel-source.js";
import type { TunedVariant } from "./kernel-choices.js";
import {
  isWideGemmShape,
  PANEL_TOKENS,
  panelIndex,
  type PanelTokens,
  usualWideGemmParameters,
  wideGemmBlocks,
  type WideGemmParameters,
  type WideGemmRequest,
  type WideGemmShape,
  wideGemmShape,
} from "./wide-gemm-shape.js";

const FILE = "matmul/wide-gemm";

/** Lanes hold operands as NVIDIA's do (kernels/device/matrix-unit.h). */
const MATRIX_LAYOUT = 80;

type PanelInput = Extract<MatmulInput, { form: "panels" }>;

export interface WideGemmOptions {
  /** The two matmuls are gate and up of a gated linear unit with this activation. */
  readonly gated?: Activation;
  /** Where its result goes as the input of the next such matmul. */
  readonly panels?: PanelInput | undefined;
}

export function wideGemmLaunch(
  context: LoweringContext,
  input: PanelInput,
  matmuls: readonly Matmul[],
  options: WideGemmOptions = {},
): LaunchSpec {
  const { gated: activation, panels } = options;
  const [{ width, rows }] = matmuls;
  const gated = activation !== undefined;
  const { multiprocessors, sharedBytes } = context.options.device;
  const { regions } = context;
  const request: WideGemmRequest = {
    rows: gated ? [matmuls[0].outputs] : matmuls.map(({ outputs }) => outputs),
    width,
    gated,
    types: matmuls.map(({ type }) => type),
    multiprocessors,
    sharedBytes,
  };
  const types = Object.fromEntries(matmuls.map(({ type }, index) => [`TYPE${index}`, type]));
  const definesFor = (tokens: PanelTokens, { teams, ring, stages }: WideGemmShape): Defines => ({
    ...types,
    TOKENS: tokens,
    TEAMS: teams,
    RING: ring,
    STAGES: stages,
    MATMULS: matmuls.length,
    GATED: gated ? 1 : 0,
    ...(panels === undefined ? {} : { PANELS: 1 }),
    MATRIX_LAYOUT,
    BIAS_TYPE: matmuls.find(({ biasType }) => biasType !== undefined)?.biasType ?? 0,
    ...matmulDefines(matmuls, activation),
  });
  const tuned = PANEL_TOKENS.map((tokens): TunedVariant<WideGemmParameters> =>
    context.choices.variant<WideGemmParameters>({
      family: "wide-gemm",
      key: `${gated ? "gated " : ""}${Object.values(types).join(",")} ${request.rows.join("+")}x${width} t${tokens}`,
      usual: usualWideGemmParameters(request, tokens),
      isValid: (parameters) => isWideGemmShape(request, tokens, parameters),
      moduleOf: (parameters) => ({
        file: FILE,
        defines: definesFor(tokens, wideGemmShape(tokens, parameters)),
      }),
    }),
  );
  const shapes = PANEL_TOKENS.map((tokens, index) => wideGemmShape(tokens, tuned[index].parameters));
  const blocksOf = (size: LaunchSize): number => {
    const tokens = rowsOf(size, rows);
    return wideGemmBlocks(request, tuned[panelIndex(tokens)].parameters, tokens);
  };
  return {
    label: gated ? "gate and up, wide gemm" : "wide gemm",
    file: FILE,
    variants: PANEL_TOKENS.map((tokens, index) => ({
      kernel: "wide_gemm",
      defines: definesFor(tokens, shapes[index]),
      sharedBytes: shapes[index].sharedBytes,
      tuned: tuned[index],
    })),
    choose: (size) => panelIndex(rowsOf(size, rows)),
    arguments: {
      ...matmulArguments(matmuls, MAX_LAUNCHED.gemm),
      halves: input.halves,
      row_scales: input.rowScales,
      row_count: context.rowCount(rows),
      panels: panels?.halves ?? 0,
      panel_scales: panels?.rowScales ?? 0,
      panel_stride: panels?.stride ?? 0,
      partial: regions.tilePartial,
      arrivals: regions.tileArrivals,
      width,
    },
    recut: (choices) => wideGemmLaunch(context.withChoices(choices), input, matmuls, options),
    results: panels === undefined ? matmulResults(matmuls, gated) : halfResults(panels, rows),
    sized: (size) => ({ blocks: blocksOf(size) }),
    grid: (size) => [blocksOf(size), 1, 1],
  };
}
