// Launches of matmul/gemv.hip and matmul/gemv-float.hip: up to four matrices of one input, or gate and up as one.

import type { Activation } from "../../../graph/operation.js";
import type { Defines } from "../kernels/kernel-source.js";
import type { ModuleRequest } from "../kernels/kernel-store.js";
import { laneVariant } from "./lane-gemv.js";
import type { LaunchSize, LaunchSpec, LaunchVariant, MemoryPlace } from "./launch.js";
import { isNormedShape, MAX_NORMED_ROWS, normedShape, usualNormedParameters } from "./fused-norm-shape.js";
import {
  type GemvParameters,
  type GemvRequest,
  type GemvShape,
  gemvShape,
  isGemvShape,
  TOKEN_BUCKETS,
  type TokenBucket,
  usualGemvParameters,
} from "./gemv-shape.js";
import type { TunedVariant } from "./kernel-choices.js";
import { type LoweringContext, rowsOf } from "./context.js";
import type { MatmulInput } from "./inputs.js";
import { matmulResults, quantizedResults } from "./launch-results.js";
import type { QuantizedPlace } from "./regions.js";
import { type Matmul, MAX_LAUNCHED, matmulArguments, matmulDefines } from "./matmul.js";

type GemvInput = Extract<MatmulInput, { form: "quantized" | "floats" }>;

/** Index of the smallest bucket that holds `tokens` tokens; more than the largest take several blocks. */
function bucketOf(tokens: number): number {
  const index = TOKEN_BUCKETS.findIndex((bucket) => tokens <= bucket);
  return index === -1 ? TOKEN_BUCKETS.length - 1 : index;
}

export interface GemvTarget {
  /** Gate and up: the first matmul's output is activation(gate) × up. */
  readonly gated?: Activation;
  /** In place of f32 rows. */
  readonly quantized?: QuantizedPlace;
  /** In steps of one row, beside the f32 row: what the norm of the next matmul needs of it. */
  readonly handed?: HandedRow;
}

/** A row times the weight of a norm, quantized, and the sums of squares of its blocks of 32. */
export interface HandedRow {
  readonly quantized: QuantizedPlace;
  readonly squares: MemoryPlace;
  readonly weight: MemoryPlace | number;
  readonly weightType: number;
}

export function gemvLaunch(
  context: LoweringContext,
  input: GemvInput,
  matmuls: readonly Matmul[],
  target: GemvTarget = {},
): LaunchSpec {
  const { gated: activation, quantized, handed } = target;
  const written = quantized ?? handed?.quantized;
  const [{ width, rows }] = matmuls;
  const gated = activation !== undefined;
  const floats = input.form === "floats";
  const { waveSize, multiprocessors } = context.options.device;
  const request: GemvRequest = {
    rows: gated ? [matmuls[0].outputs] : matmuls.map(({ outputs }) => outputs),
    width,
    form: quantized !== undefined ? "gated to quantized rows" : gated ? "gated" : "plain",
    floats,
    waveSize,
    multiprocessors,
  };
  const normed = input.form === "quantized" ? input.normed : undefined;
  const types = Object.fromEntries(matmuls.map(({ type }, index) => [`TYPE${index}`, type]));
  const stem = floats ? "gemv_float" : "gemv";
  const file = floats ? "matmul/gemv-float" : "matmul/gemv";
  const isNormed = (bucket: TokenBucket): boolean => normed !== undefined && bucket <= MAX_NORMED_ROWS;
  const shapeOf = (bucket: TokenBucket, parameters: GemvParameters): GemvShape =>
    isNormed(bucket) ? normedShape(request, bucket, parameters) : gemvShape(request, bucket, parameters);
  const common = (bucket: TokenBucket): Defines => ({
    MATMULS: gated ? 1 : matmuls.length,
    GATED: gated ? 1 : 0,
    BIAS_TYPE: matmuls.find(({ biasType }) => biasType !== undefined)?.biasType ?? 0,
    TOKENS: bucket,
    ...matmulDefines(matmuls, activation),
  });
  const definesFor = (bucket: TokenBucket, shape: GemvShape): Defines => ({
    ...types,
    ...definesOf(shape, floats),
    ...common(bucket),
    ...(normed !== undefined && isNormed(bucket) ? { WEIGHT_TYPE: normed.weightType } : {}),
  });
  const tuned = chosenParameters(context, request, {
    name: Object.values(types).join(","),
    isNormed,
    moduleOf: (bucket, parameters) => ({ file, defines: definesFor(bucket, shapeOf(bucket, parameters)) }),
  });
  const lanes = input.form === "quantized" ? laneVariant(context, input, matmuls, target, common(1)) : undefined;
  const variants = TOKEN_BUCKETS.map((bucket, index): GemvVariant => {
    const kernel = `${stem}_${bucket}`;
    if (bucket === 1 && lanes !== undefined) return { ...lanes, kernel };
    const shape = shapeOf(bucket, tuned[index].parameters);
    const { blocks, passes, sharedBytes } = shape;
    return { kernel, defines: definesFor(bucket, shape), sharedBytes, tuned: tuned[index], blocks, passes };
  });
  const choose = (size: LaunchSize): number => bucketOf(rowsOf(size, rows));
  return {
    label: gated ? "gate and up" : "gemv",
    file,
    variants,
    choose,
    arguments: {
      ...matmulArguments(matmuls, MAX_LAUNCHED.gemv),
      ...(input.form === "floats"
        ? { inputs: input.input, input_stride: input.stride }
        : {
            values: input.values,
            scales: input.scales,
            sums: input.sums,
            normed_rows: normed?.place ?? 0,
            normed_stride: normed?.stride ?? 0,
            norm_weight: normed?.weight ?? 0,
            norm_epsilon: normed?.epsilon ?? 0,
            squares: normed?.squares ?? 0,
            quantized_values: written?.values ?? 0,
            quantized_scales: written?.scales ?? 0,
            quantized_sums: written?.sums ?? 0,
            handed_squares: handed?.squares ?? 0,
            handed_norm: handed?.weight ?? 0,
          }),
      row_count: context.rowCount(rows),
      width,
    },
    recut: (choices) => gemvLaunch(context.withChoices(choices), input, matmuls, target),
    results:
      quantized === undefined ? matmulResults(matmuls, gated) : quantizedResults(quantized, rows, matmuls[0].outputs),
    sized: (size) => {
      const { blocks, passes } = variants[choose(size)];
      return { blocks0: blocks[0], blocks1: blocks[1] ?? 0, blocks2: blocks[2] ?? 0, passes };
    },
    grid: (size) => {
      const choice = choose(size);
      const blocks = variants[choice].blocks.reduce((sum, count) => sum + count, 0);
      return [blocks, Math.ceil(rowsOf(size, rows) / TOKEN_BUCKETS[choice]), 1];
    },
  };
}

export interface GemvVariant extends LaunchVariant {
  readonly blocks: readonly number[];
  readonly passes: number;
}

interface GemvVariants {
  /** The matrices' types. */
  readonly name: string;
  isNormed(bucket: TokenBucket): boolean;
  moduleOf(bucket: TokenBucket, parameters: GemvParameters): ModuleRequest;
}

/** Parameters of each token bucket. SPLIT decides a row's bits, so all buckets have that of the first. */
function chosenParameters(
  { choices }: LoweringContext,
  request: GemvRequest,
  { name, isNormed, moduleOf }: GemvVariants,
): readonly TunedVariant<GemvParameters>[] {
  const { form, rows, width, floats } = request;
  let split: number | undefined;
  return TOKEN_BUCKETS.map((bucket) => {
    const usual = isNormed(bucket) ? usualNormedParameters(request, bucket) : usualGemvParameters(request, bucket);
    const isShape = isNormed(bucket) ? isNormedShape : isGemvShape;
    const fixed = split;
    const chosen = choices.variant<GemvParameters>({
      family: "gemv",
      key: `${form}${floats ? " floats" : ""}${isNormed(bucket) ? " normed" : ""} ${name} ${rows.join("+")}x${width} t${bucket}`,
      usual,
      ...(fixed === undefined ? {} : { fixed: { split: fixed } }),
      isValid: (parameters) => isShape(request, parameters),
      moduleOf: (parameters) => moduleOf(bucket, parameters),
    });
    split ??= chosen.parameters.split;
    return chosen;
  });
}

function definesOf(
  { defines: { STAGED, WIDTH, ...rest } }: GemvShape,
  floats: boolean,
): Readonly<Record<string, number>> {
  if (!floats) return { ...rest, STAGED, WIDTH };
  return WIDTH === 0 ? rest : { ...rest, WIDTH };
}
