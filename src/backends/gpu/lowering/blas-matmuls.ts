// Products by the vendor's library: the matrix unpacked to halves in scratch memory, the library's product, and a launch
// of matmul/epilogue.hip for what it lacks (row scales, factor, bias, soft-cap, residual, gating).

import type { Activation } from "../../../graph/operation.js";
import { softCapDefines } from "./attributes.js";
import type { LaunchSpec } from "./launch.js";
import { type LoweringContext, type MatrixPlace, rowsOf } from "./context.js";
import type { ProductInput } from "./inputs.js";
import { type Product, productDefines } from "./matmul.js";
import { heldQuads, rowGrid } from "./rows.js";
import type { LibrarySpec, StepItem } from "./step-item.js";

const UNPACK_THREADS = 256;
const PIECE_WEIGHTS = 32;
const FINISH_COLUMNS = 1024;
const F16_TYPE = 1;

type HalfInput = Extract<ProductInput, { form: "half" }>;

/** The product itself, into `out`, without what comes after. */
function multiply(context: LoweringContext, input: HalfInput, product: Product, out: MatrixPlace): readonly StepItem[] {
  const { unpacked } = context.regions.library;
  const { type, width, outputs, weight } = product;
  const isUnpacked = type === F16_TYPE && typeof weight === "object";
  const unpack: LaunchSpec = {
    label: "unpack",
    file: "weights/unpack",
    variants: [{ kernel: "unpack", defines: { TYPE0: type } }],
    arguments: { weights: weight, halves: unpacked, rows: outputs, width },
    grid: (size) => [
      rowsOf(size, product.rows) === 0 ? 0 : Math.ceil((outputs * (width / PIECE_WEIGHTS)) / UNPACK_THREADS),
      1,
      1,
    ],
  };
  const call: LibrarySpec = {
    label: "product by the library",
    weights: isUnpacked ? weight : unpacked,
    inputs: input.halves,
    out: out.place,
    rows: outputs,
    width,
    inputStride: input.stride,
    outStride: out.stride,
    tokens: product.rows,
  };
  return isUnpacked ? [call] : [unpack, call];
}

export function libraryProduct(context: LoweringContext, input: ProductInput, product: Product): readonly StepItem[] {
  const half = requireHalf(input);
  const { out, residual, outputs, rows } = product;
  // A residual in the place of the result would be overwritten before it is added.
  const raw = residual === undefined ? out : { ...out, place: context.regions.library.gate, stride: outputs };
  return [
    ...multiply(context, half, product, raw),
    {
      label: "finish",
      file: "matmul/epilogue",
      variants: [
        { kernel: "finish_product", defines: { BIAS_TYPE: product.biasType ?? 0, ...softCapDefines(product.softCap) } },
      ],
      arguments: {
        product: raw.place,
        row_scales: half.rowScales,
        row_count: context.rowCount(rows),
        bias: product.bias,
        factor: product.factor,
        residual: residual?.place ?? 0,
        out: out.place,
        width: outputs,
        product_stride: raw.stride,
        residual_stride: residual?.stride ?? 0,
        out_stride: out.stride,
      },
      grid: (size) => [Math.ceil(outputs / FINISH_COLUMNS), rowsOf(size, rows), 1],
    },
  ];
}

/** The two matmuls of a gated linear unit, and where its result goes. */
export interface GatedMatmuls {
  readonly activation: Activation;
  readonly matmuls: readonly Product[];
  readonly out: MatrixPlace;
}

/** Gate and up, of one soft-cap, into memory of their own, then activation(gate) × up as `wanted`, or as f32 rows. */
export function gatedByLibrary(
  context: LoweringContext,
  input: ProductInput,
  { activation, matmuls, out }: GatedMatmuls,
  wanted: ProductInput | undefined,
): readonly StepItem[] {
  const half = requireHalf(input);
  const [gate, up] = matmuls;
  const { library } = context.regions;
  const [gates, ups] = [library.gate, library.up].map((place) => ({ ...out, place, stride: out.width }));
  const toHalf = wanted?.form === "half" ? wanted : undefined;
  const stride = toHalf?.stride ?? out.stride;
  return [
    ...multiply(context, half, gate, gates),
    ...multiply(context, half, up, ups),
    {
      label: "finish gate and up",
      file: "matmul/epilogue",
      variants: [
        {
          kernel: toHalf === undefined ? "finish_gated" : "finish_gated_half",
          defines: {
            BIAS_TYPE: gate.biasType ?? up.biasType ?? 0,
            HELD: heldQuads(stride),
            ...productDefines(matmuls, activation),
          },
        },
      ],
      arguments: {
        gate: gates.place,
        up: ups.place,
        row_scales: half.rowScales,
        row_count: context.rowCount(out.rows),
        gate_bias: gate.bias,
        up_bias: up.bias,
        gate_factor: gate.factor,
        up_factor: up.factor,
        width: out.width,
        gate_stride: gates.stride,
        up_stride: ups.stride,
        out_stride: stride,
        ...(toHalf === undefined ? { out: out.place } : { halves: toHalf.halves, out_scales: toHalf.rowScales }),
      },
      grid: rowGrid(out.rows),
    },
  ];
}

function requireHalf(input: ProductInput): HalfInput {
  if (input.form === "half") return input;
  throw new TypeError("the library takes half rows");
}
