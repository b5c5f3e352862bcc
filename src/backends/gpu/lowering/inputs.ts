// The inputs of matmuls in the form that each method takes: quantized to 8 bits, as f16, or as f32 rows.
// A norm before the matmuls is part of the same launch.

import type { WeightedRmsNorm } from "../../../graph/fusion.js";
import type { Grid, LaunchSize, LaunchSpec, MemoryPlace } from "./launch.js";
import type { MatmulMethod } from "./matmul-selection.js";
import { canBeNormed, MAX_NORMED_ROWS } from "./fused-norm-shape.js";
import { type LoweringContext, type ValuePlace, rowsOf } from "./context.js";
import {
  capacityOf,
  FLOAT_BYTES,
  type HalfPlace,
  halfPlace,
  panelPlace,
  type QuantizedPlace,
  quantizedPlace,
} from "./regions.js";
import { heldQuads, rowGrid } from "./rows.js";
import { PANEL_TOKENS, panelIndex } from "./wide-gemm-shape.js";

/** Rows that a GEMV of few tokens norms and quantizes itself. */
export interface NormedRows {
  readonly place: MemoryPlace;
  readonly stride: number;
  readonly weight: MemoryPlace | number;
  readonly weightType: number;
  readonly epsilon: number;
  /**
   * In steps of one row the launch before has left it times the weight, quantized, and the sums of squares of its blocks here.
   */
  readonly squares?: MemoryPlace;
}

export type MatmulInput =
  | ({ readonly form: "quantized"; readonly normed?: NormedRows } & QuantizedPlace)
  | ({ readonly form: "half" } & HalfPlace)
  /** f16 in the order of kernels/matmul/wide-gemm.hip, by tiles of as many tokens as the step has (wide-gemm-shape.ts). */
  | ({ readonly form: "panels" } & HalfPlace)
  | { readonly form: "floats"; readonly input: MemoryPlace; readonly stride: number };

export type InputForm = MatmulInput["form"];

/** The input of a grouped GEMM without a router, one f16 row for each slot, as the group before may leave it. */
export interface SlotInput extends Pick<HalfPlace, "halves" | "rowScales" | "stride"> {
  readonly form: "slots";
  readonly slots: number;
  /** Whether any steps take wide products, and which. */
  readonly canBeWide: boolean;
  isWide(step: LaunchSize): boolean;
  /** Of kernels/rows/wide-order.h. */
  readonly groupChunks: number;
}

/** What a group may leave for the next one. */
export type HandedInput = MatmulInput | SlotInput;

const NOTHING: Grid = [0, 0, 0];
/** Alignment that rows need for wide loads. */
const WIDE_BYTES = 16;

const FORMS: Readonly<Record<MatmulMethod, InputForm>> = {
  gemv: "quantized",
  "gemv-float": "floats",
  gemm: "half",
  "int8-gemm": "quantized",
  "wide-gemm": "panels",
  "gemm-float": "floats",
  blas: "half",
};

export function formFor(method: MatmulMethod): InputForm {
  return FORMS[method];
}

/** Places of rows of a form in a region of scratch memory. */
export function inputPlace(
  context: LoweringContext,
  form: InputForm,
  region: MemoryPlace,
  { rows, width }: Pick<ValuePlace, "rows" | "width">,
): MatmulInput {
  const capacity = capacityOf(context.options, rows);
  switch (form) {
    case "quantized":
      return { form, ...quantizedPlace(region, capacity, width) };
    case "half":
      return { form, ...halfPlace(region, capacity, width) };
    case "panels":
      return { form, ...panelPlace(region, capacity, width) };
    case "floats":
      return { form, input: region, stride: width };
    default:
      return form satisfies never;
  }
}

export interface PreparedInput {
  readonly launches: readonly LaunchSpec[];
  readonly input: MatmulInput;
}

export interface NormOptions {
  /** Where the launch before has left the sums of squares of single rows (NormedRows). */
  readonly squares?: MemoryPlace | undefined;
  /** Whether single rows too are normed by a launch of their own. */
  readonly apart?: boolean;
}

export function prepareInput(
  context: LoweringContext,
  source: ValuePlace,
  norm: WeightedRmsNorm | undefined,
  form: InputForm,
  { squares, apart = false }: NormOptions = {},
): PreparedInput {
  if (form === "floats" && norm === undefined)
    return { launches: [], input: { form, input: source.place, stride: source.stride } };
  const input = inputPlace(context, form, context.regions.input, source);
  const launch = preparation(context, source, norm, input);
  if (apart || input.form !== "quantized" || norm === undefined || !canNormThere(context, source))
    return { launches: [launch], input };
  const normed = { ...normedRows(context, source, norm), ...(squares === undefined ? {} : { squares }) };
  return {
    launches: [
      { ...launch, grid: (size) => (rowsOf(size, source.rows) <= MAX_NORMED_ROWS ? NOTHING : launch.grid(size)) },
    ],
    input: { ...input, normed },
  };
}

/** Normed rows in this form for matmuls, and as f32 in `floats` for what reads them otherwise, by one launch. */
export function prepareNormed<Form extends "half" | "quantized">(
  context: LoweringContext,
  norm: WeightedRmsNorm,
  form: Form,
  floats: ValuePlace,
): { readonly launch: LaunchSpec; readonly input: Extract<MatmulInput, { form: Form }> } {
  const source = context.matrix(norm.input);
  const input = inputPlace(context, form, context.regions.input, source);
  return {
    launch: preparation(context, source, norm, input, floats),
    input: input as Extract<MatmulInput, { form: Form }>,
  };
}

/** Rows that a kernel norms itself. */
export function normedRows(
  context: LoweringContext,
  { place, stride }: ValuePlace,
  { weight, epsilon }: WeightedRmsNorm,
): NormedRows {
  return { place, stride, weight: context.weight(weight), weightType: context.typeOf(weight), epsilon };
}

/** Not in deterministic mode: a row's bits would depend on how many others there are. */
export function canNormThere({ options }: LoweringContext, source: ValuePlace): boolean {
  return !options.deterministic && isAligned(source) && canBeNormed(source.width);
}

/** Whether rows can be read 16 bytes at a time. */
export function isAligned({ place, stride }: Pick<ValuePlace, "place" | "stride">): boolean {
  return place.space !== "weight" && place.byteOffset % WIDE_BYTES === 0 && stride % (WIDE_BYTES / FLOAT_BYTES) === 0;
}

function preparation(
  context: LoweringContext,
  source: ValuePlace,
  norm: WeightedRmsNorm | undefined,
  input: MatmulInput,
  floats?: ValuePlace,
): LaunchSpec {
  const { width, rows } = source;
  const read = { input: source.place, row_count: context.rowCount(rows), width, input_stride: source.stride };
  const normed = norm === undefined ? {} : { weight: context.weight(norm.weight), epsilon: norm.epsilon };
  const type = norm === undefined ? {} : { WEIGHT_TYPE: context.typeOf(norm.weight) };
  const written = norm === undefined ? {} : { floats: floats?.place ?? 0, float_stride: floats?.stride ?? 0 };
  const launch = (kernel: string, held: number, target: LaunchSpec["arguments"]): LaunchSpec => ({
    label: norm === undefined ? "input" : "norm",
    file: "rows/quantize",
    variants: [{ kernel, defines: { HELD: held, ...type } }],
    arguments: { ...read, ...normed, ...target },
    grid: rowGrid(rows),
  });
  switch (input.form) {
    case "quantized":
      return launch(norm === undefined ? "quantize_rows" : "norm_quantize", heldQuads(width), {
        values: input.values,
        scales: input.scales,
        sums: input.sums,
        ...written,
      });
    case "half":
      return launch(norm === undefined ? "half_rows" : "norm_half", heldQuads(input.stride), {
        halves: input.halves,
        row_scales: input.rowScales,
        out_stride: input.stride,
        ...written,
      });
    case "panels": {
      const kernel = norm === undefined ? "half_rows" : "norm_half";
      const target = { halves: input.halves, row_scales: input.rowScales, out_stride: input.stride, ...written };
      return {
        ...launch(kernel, heldQuads(input.stride), target),
        variants: PANEL_TOKENS.map((tokens) => ({
          kernel,
          defines: { HELD: heldQuads(input.stride), ...type, PANEL_TOKENS: tokens },
        })),
        choose: (size) => panelIndex(rowsOf(size, rows)),
      };
    }
    case "floats":
      return launch("norm_rows", heldQuads(width), {
        out: input.input,
        out_stride: input.stride,
        residual: 0,
        residual_stride: 0,
      });
    default:
      return input satisfies never;
  }
}
