// Launches of the operations that work on each row by itself: embedding, norms, quantization, sums, scales,
// row selection. A new one of them is a function and its entry in the table at the end.

import type {
  AddOperation,
  EmbedOperation,
  HeadColumnsOperation,
  LayerNormOperation,
  RmsNormOperation,
  ScaleOperation,
  QuantizeActivationsOperation,
  SelectRowsOperation,
  ValueId,
} from "../../../graph/operation.js";
import type { RowSymbol } from "../../../graph/program.js";
import type { Grid, LaunchSize, LaunchSpec } from "./launch.js";
import { lowerHostEmbed } from "./host-embed.js";
import { isPlain } from "./matmul-selection.js";
import { type SomeOperationLowerings, supportsPlain } from "./operation-lowering.js";
import { type LoweringContext, type ValuePlace, rowsOf } from "./context.js";

/** Columns that one block of rows/elementwise.hip covers. */
const QUAD_BLOCK_COLUMNS = 1024;
/** Columns of the threads of rows/quantize.hip and rows/glu.hip, a quad each. */
const ROW_BLOCK_COLUMNS = 2048;
const EMBED_THREADS = 128;
const GROUP_THREADS = 128;
/** More would spill: wider rows are read twice. */
const MAX_HELD = 8;

/** Quads that a thread of rows/quantize.hip and rows/glu.hip keeps. */
export function heldQuads(width: number): number {
  return Math.min(MAX_HELD, Math.max(1, Math.ceil(width / ROW_BLOCK_COLUMNS)));
}

export function rowGrid(rows: RowSymbol): (size: LaunchSize) => Grid {
  return (size) => [rowsOf(size, rows), 1, 1];
}

export function quadGrid({ rows, width }: ValuePlace): (size: LaunchSize) => Grid {
  return (size) => [Math.ceil(width / QUAD_BLOCK_COLUMNS), rowsOf(size, rows), 1];
}

function lowerEmbed(context: LoweringContext, { table, scale, out }: EmbedOperation): LaunchSpec {
  const target = context.matrix(out);
  const weight = context.options.weights[table];
  const columns = EMBED_THREADS * (isPlain(weight) ? 4 : 32);
  return {
    label: "embed",
    file: "rows/embed",
    variants: [
      {
        kernel: "embed_rows",
        defines: { TYPE0: weight.layout.id, ...(scale === undefined ? {} : { EMBED_SCALE: scale }) },
      },
    ],
    arguments: {
      table: context.weight(table),
      tokens: context.stepField("tokens"),
      results: context.regions.results,
      row_count: context.rowCount(target.rows),
      out: target.place,
      width: target.width,
      rows: weight.elements / weight.shape[0],
      stride: target.stride,
    },
    grid: (size) => [Math.ceil(target.width / columns), rowsOf(size, target.rows), 1],
  };
}

/** A norm of rows or of groups of columns; `residual` is added to that of whole rows. */
export function normRows(context: LoweringContext, operation: RmsNormOperation, residual?: ValueId): LaunchSpec {
  const { groupWidth, rowWeights = false, weight, epsilon } = operation;
  const [input, out] = [context.matrix(operation.input), context.matrix(operation.out)];
  const shared = {
    input: input.place,
    weight: context.weight(weight),
    row_count: context.rowCount(input.rows),
    out: out.place,
    input_stride: input.stride,
    out_stride: out.stride,
    epsilon,
  };
  const type = weight === undefined ? { WEIGHTED: 0 } : { WEIGHT_TYPE: context.typeOf(weight) };
  const added = residual === undefined ? undefined : context.matrix(residual);
  if (groupWidth === input.width) {
    return {
      label: "norm",
      file: "rows/quantize",
      variants: [{ kernel: "norm_rows", defines: { HELD: heldQuads(input.width), ...type } }],
      arguments: { ...shared, width: input.width, residual: added?.place ?? 0, residual_stride: added?.stride ?? 0 },
      grid: rowGrid(input.rows),
    };
  }
  const { waveSize } = context.options.device;
  const groups = input.width / groupWidth;
  const held = Math.min(MAX_HELD, Math.max(1, Math.ceil(groupWidth / (4 * waveSize))));
  return {
    label: "norm of heads",
    file: "rows/quantize",
    variants: [{ kernel: "norm_groups", defines: { HELD: held, ...type } }],
    arguments: { ...shared, group_width: groupWidth, groups, weight_stride: rowWeights ? groupWidth : 0 },
    grid: (size) => [rowsOf(size, input.rows), Math.ceil(groups / (GROUP_THREADS / waveSize)), 1],
  };
}

function lowerLayerNorm(context: LoweringContext, operation: LayerNormOperation): LaunchSpec {
  const { weight, bias, epsilon } = operation;
  const [input, out] = [context.matrix(operation.input), context.matrix(operation.out)];
  return {
    label: "layer norm",
    file: "rows/layer-norm",
    variants: [
      {
        kernel: "layer_norm_rows",
        defines: {
          HELD: heldQuads(input.width),
          WEIGHT_TYPE: context.typeOf(weight),
          ...(bias === undefined ? { BIASED: 0 } : { BIAS_TYPE: context.typeOf(bias) }),
        },
      },
    ],
    arguments: {
      input: input.place,
      weight: context.weight(weight),
      bias: context.weight(bias),
      row_count: context.rowCount(input.rows),
      out: out.place,
      width: input.width,
      input_stride: input.stride,
      out_stride: out.stride,
      epsilon,
    },
    grid: rowGrid(input.rows),
  };
}

function lowerScale(context: LoweringContext, operation: ScaleOperation): LaunchSpec {
  const { factor = 1, weight } = operation;
  const [input, out] = [context.matrix(operation.input), context.matrix(operation.out)];
  return {
    label: "scale",
    file: "rows/elementwise",
    variants: [{ kernel: "scale_rows", defines: { WEIGHT_TYPE: weight === undefined ? 0 : context.typeOf(weight) } }],
    arguments: {
      input: input.place,
      weight: context.weight(weight),
      row_count: context.rowCount(out.rows),
      out: out.place,
      factor,
      width: out.width,
      input_stride: input.stride,
      out_stride: out.stride,
    },
    grid: quadGrid(out),
  };
}

function lowerQuantize(context: LoweringContext, operation: QuantizeActivationsOperation): LaunchSpec {
  const [input, out] = [context.matrix(operation.input), context.matrix(operation.out)];
  return {
    label: "round",
    file: "rows/quantize",
    variants: [{ kernel: "quantize_dequantize_rows", defines: { HELD: heldQuads(input.width) } }],
    arguments: {
      input: input.place,
      row_count: context.rowCount(input.rows),
      out: out.place,
      width: input.width,
      input_stride: input.stride,
      out_stride: out.stride,
    },
    grid: rowGrid(input.rows),
  };
}

function lowerAdd(context: LoweringContext, operation: AddOperation): LaunchSpec {
  return addRows(
    context,
    context.matrix(operation.left),
    context.matrix(operation.right),
    context.matrix(operation.out),
  );
}

/** left + right as a launch of its own. */
export function addRows(context: LoweringContext, left: ValuePlace, right: ValuePlace, out: ValuePlace): LaunchSpec {
  return {
    label: "add",
    file: "rows/elementwise",
    variants: [{ kernel: "add_rows", defines: {} }],
    arguments: {
      left: left.place,
      right: right.place,
      row_count: context.rowCount(out.rows),
      out: out.place,
      width: out.width,
      left_stride: left.stride,
      right_stride: right.stride,
      out_stride: out.stride,
    },
    grid: quadGrid(out),
  };
}

function lowerSelect(context: LoweringContext, operation: SelectRowsOperation): LaunchSpec {
  const [input, out] = [context.matrix(operation.input), context.matrix(operation.out)];
  return {
    label: "select rows",
    file: "rows/elementwise",
    variants: [{ kernel: "select_rows", defines: {} }],
    arguments: {
      input: input.place,
      indexes: context.stepField(out.rows === "scored" ? "scored" : "outputs"),
      row_count: context.rowCount(out.rows),
      out: out.place,
      width: out.width,
      input_stride: input.stride,
      out_stride: out.stride,
    },
    grid: quadGrid(out),
  };
}

function lowerHeadColumns(context: LoweringContext, operation: HeadColumnsOperation): LaunchSpec {
  const { heads, offset, width } = operation;
  const [input, out] = [context.matrix(operation.input), context.matrix(operation.out)];
  return {
    label: "columns of heads",
    file: "rows/elementwise",
    variants: [{ kernel: "head_columns", defines: {} }],
    arguments: {
      input: input.place,
      row_count: context.rowCount(out.rows),
      out: out.place,
      width: out.width,
      head_width: width,
      head_stride: input.width / heads,
      offset,
      input_stride: input.stride,
      out_stride: out.stride,
    },
    grid: quadGrid(out),
  };
}

export const ROW_LOWERINGS = {
  embed: {
    lower: (context, operation) => {
      const launch = lowerEmbed(context, operation);
      const isOnHost = context.options.weights[operation.table].onHost === true;
      return isOnHost ? lowerHostEmbed(context, operation, launch) : [launch];
    },
  },
  "rms-norm": {
    supports: (_, weights) => supportsPlain("a norm weight", weights),
    lower: (context, operation) => [normRows(context, operation)],
  },
  "layer-norm": {
    supports: (_, weights) => supportsPlain("a norm weight", weights),
    lower: (context, operation) => [lowerLayerNorm(context, operation)],
  },
  scale: {
    supports: (_, weights) => supportsPlain("a scale", weights),
    lower: (context, operation) => [lowerScale(context, operation)],
  },
  "quantize-activations": { lower: (context, operation) => [lowerQuantize(context, operation)] },
  add: { lower: (context, operation) => [lowerAdd(context, operation)] },
  "head-columns": { lower: (context, operation) => [lowerHeadColumns(context, operation)] },
  "select-rows": { lower: (context, operation) => [lowerSelect(context, operation)] },
} satisfies SomeOperationLowerings;
