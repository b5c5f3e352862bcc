// The variant of matmul/gemv.hip for one token whose lanes keep their part of the input (kernels/matmul/lane-rows.h).

import type { Defines } from "../kernels/kernel-source.js";
import type { LoweringContext } from "./context.js";
import type { GemvTarget, GemvVariant, HandedRow } from "./gemv.js";
import type { MatmulInput } from "./inputs.js";
import {
  isLaneShape,
  type LaneParameters,
  type LaneRequest,
  type LaneShape,
  laneShape,
  takesLanes,
  usualLaneParameters,
} from "./lane-gemv-shape.js";
import type { LaunchResult } from "./launch.js";
import { floatResult, matmulResults, quantizedResults } from "./launch-results.js";
import type { Matmul } from "./matmul.js";

const FILE = "matmul/gemv";
/** Columns that share a sum of squares. */
const SQUARED_COLUMNS = 32;

/** Undefined if the device or the input is for another kernel. `common`: what all kernels of a launch are compiled with. */
export function laneVariant(
  context: LoweringContext,
  { normed }: Extract<MatmulInput, { form: "quantized" }>,
  matmuls: readonly Matmul[],
  { gated, quantized, handed }: GemvTarget,
  common: Defines,
): Omit<GemvVariant, "kernel"> | undefined {
  const { options, choices } = context;
  const [{ width, outputs }] = matmuls;
  if (!takesLanes(options, width) || (normed !== undefined && normed.squares === undefined)) return undefined;
  const types = matmuls.map(({ type }) => type);
  const request: LaneRequest = {
    rows: gated === undefined ? matmuls.map((matmul) => matmul.outputs) : [outputs],
    width,
    types,
    form: gated === undefined ? (handed === undefined ? "plain" : "handed") : "gated",
    multiprocessors: options.device.multiprocessors,
  };
  const handing = handed === undefined ? {} : { HANDED: 1, HANDED_TYPE: handed.weightType };
  const definesFor = ({ defines }: LaneShape): Defines => ({
    ...Object.fromEntries(types.map((type, index) => [`TYPE${index}`, type])),
    ...defines,
    PREPARED: normed === undefined ? 0 : 1,
    ...handing,
    ...common,
  });
  const form = `${request.form}${quantized === undefined ? "" : " to quantized rows"}${normed === undefined ? "" : " prepared"}`;
  const tuned = choices.variant<LaneParameters>({
    family: "lane-gemv",
    key: `${form} ${types.join(",")} ${request.rows.join("+")}x${width}`,
    usual: usualLaneParameters(request),
    isValid: (parameters) => isLaneShape(request, parameters),
    moduleOf: (parameters) => ({ file: FILE, defines: definesFor(laneShape(request, parameters)) }),
  });
  const shape = laneShape(request, tuned.parameters);
  return {
    defines: definesFor(shape),
    blocks: shape.blocks,
    passes: shape.defines.PASSES,
    tuned,
    ...(handed === undefined ? {} : { results: handedResults(matmuls, handed) }),
  };
}

/** The row itself, and what the norm of the next matmul needs of it. */
function handedResults(matmuls: readonly Matmul[], { quantized, squares }: HandedRow): readonly LaunchResult[] {
  const [{ rows, outputs }] = matmuls;
  const sums = Math.ceil(outputs / SQUARED_COLUMNS);
  return [
    ...matmulResults(matmuls, false),
    ...quantizedResults(quantized, rows, outputs),
    floatResult({ place: squares, stride: sums, rows }, sums),
  ];
}
