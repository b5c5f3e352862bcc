// Launches of matmul/gemv.hip and matmul/gemv-float.hip: up to three matrices of one input, or gate and up as one.

import type { Activation } from "../../../graph/operation.js";
import type { LaunchSize, LaunchSpec } from "./launch.js";
import { MOST_NORMED_ROWS, normedShape } from "./fused-norm-shape.js";
import { type RowsRequest, type RowsShape, rowsShape, TOKEN_BUCKETS } from "./gemv-shape.js";
import { type LoweringContext, rowsOf } from "./context.js";
import type { ProductInput } from "./inputs.js";
import type { RoundedPlace } from "./regions.js";
import { type Product, productArguments, productDefines } from "./matmul.js";

type StreamedInput = Extract<ProductInput, { form: "rounded" | "floats" }>;

/** Index of the smallest bucket that holds so many tokens; the largest for more, which take several blocks. */
function bucketOf(tokens: number): number {
  const index = TOKEN_BUCKETS.findIndex((bucket) => tokens <= bucket);
  return index === -1 ? TOKEN_BUCKETS.length - 1 : index;
}

export interface StreamedTarget {
  /** Gate and up: the first matmul's output is activation(gate) × up. */
  readonly gated?: Activation;
  /** In place of f32 rows. */
  readonly rounded?: RoundedPlace;
}

export function streamedProducts(
  context: LoweringContext,
  input: StreamedInput,
  products: readonly Product[],
  { gated: activation, rounded }: StreamedTarget = {},
): LaunchSpec {
  const [{ width, rows }] = products;
  const gated = activation !== undefined;
  const floats = input.form === "floats";
  const { waveSize, multiprocessors } = context.facts.device;
  const request: RowsRequest = {
    rows: gated ? [products[0].outputs] : products.map(({ outputs }) => outputs),
    width,
    form: rounded !== undefined ? "gated to rounded rows" : gated ? "gated" : "plain",
    floats,
    waveSize,
    multiprocessors,
  };
  const normed = input.form === "rounded" ? input.normed : undefined;
  const shapes = TOKEN_BUCKETS.map((bucket) =>
    normed !== undefined && bucket <= MOST_NORMED_ROWS ? normedShape(request, bucket) : rowsShape(request, bucket),
  );
  const types = Object.fromEntries(products.map(({ type }, index) => [`TYPE${index}`, type]));
  const stem = floats ? "product_floats" : "product_rows";
  const choose = (size: LaunchSize): number => bucketOf(rowsOf(size, rows));
  return {
    label: gated ? "gate and up" : "products",
    file: floats ? "matmul/gemv-float" : "matmul/gemv",
    variants: TOKEN_BUCKETS.map((bucket, index) => ({
      kernel: `${stem}_${bucket}`,
      defines: {
        ...types,
        ...definesOf(shapes[index], floats),
        PRODUCTS: gated ? 1 : products.length,
        GATED: gated ? 1 : 0,
        BIAS_TYPE: products.find(({ biasType }) => biasType !== undefined)?.biasType ?? 0,
        TOKENS: bucket,
        ...productDefines(products, activation),
        ...(normed !== undefined && bucket <= MOST_NORMED_ROWS ? { WEIGHT_TYPE: normed.weightType } : {}),
      },
      sharedBytes: shapes[index].sharedBytes,
    })),
    choose,
    arguments: {
      ...productArguments(products),
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
            rounded_values: rounded?.values ?? 0,
            rounded_scales: rounded?.scales ?? 0,
            rounded_sums: rounded?.sums ?? 0,
          }),
      row_count: context.rowCount(rows),
      width,
    },
    sized: (size) => {
      const { blocks, passes } = shapes[choose(size)];
      return { blocks0: blocks[0], blocks1: blocks[1] ?? 0, passes };
    },
    grid: (size) => {
      const choice = choose(size);
      const blocks = shapes[choice].blocks.reduce((sum, count) => sum + count, 0);
      return [blocks, Math.ceil(rowsOf(size, rows) / TOKEN_BUCKETS[choice]), 1];
    },
  };
}

function definesOf(
  { defines: { STAGED, WIDTH, ...rest } }: RowsShape,
  floats: boolean,
): Readonly<Record<string, number>> {
  return floats ? rest : { ...rest, STAGED, WIDTH };
}
