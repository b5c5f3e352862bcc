// Matmuls by the BLAS library: the matrix unpacked to halves in scratch memory, the BLAS library's matmul, and a launch
// of matmul/epilogue.hip for what it lacks (row scales, factor, bias, soft-cap, residual, gating).

import type { Activation } from "../../../graph/operation.js";
import { softCapDefines } from "./attributes.js";
import type { LaunchSpec } from "./launch.js";
import { type LoweringContext, type ValuePlace, rowsOf } from "./context.js";
import type { MatmulInput } from "./inputs.js";
import { type Matmul, matmulDefines } from "./matmul.js";
import { heldQuads, rowGrid } from "./rows.js";
import type { BlasSpec, StepItem } from "./step-item.js";

const UNPACK_THREADS = 256;
const BLOCK_WEIGHTS = 32;
const EPILOGUE_COLUMNS = 1024;
const F16_TYPE = 1;

type HalfInput = Extract<MatmulInput, { form: "half" }>;

/** The matmul itself into `out`, without its epilogue. */
function multiply(context: LoweringContext, input: HalfInput, matmul: Matmul, out: ValuePlace): readonly StepItem[] {
  const { unpacked } = context.regions.blas;
  const { type, width, outputs, weight } = matmul;
  const isUnpacked = type === F16_TYPE && typeof weight === "object";
  const unpack: LaunchSpec = {
    label: "unpack",
    file: "weights/unpack",
    variants: [{ kernel: "unpack", defines: { TYPE0: type } }],
    arguments: { weights: weight, halves: unpacked, rows: outputs, width },
    grid: (size) => [
      rowsOf(size, matmul.rows) === 0 ? 0 : Math.ceil((outputs * (width / BLOCK_WEIGHTS)) / UNPACK_THREADS),
      1,
      1,
    ],
  };
  const call: BlasSpec = {
    label: "BLAS matmul",
    weights: isUnpacked ? weight : unpacked,
    inputs: input.halves,
    out: out.place,
    rows: outputs,
    width,
    inputStride: input.stride,
    outStride: out.stride,
    tokens: matmul.rows,
  };
  return isUnpacked ? [call] : [unpack, call];
}

export function blasMatmul(context: LoweringContext, input: MatmulInput, matmul: Matmul): readonly StepItem[] {
  const half = requireHalf(input);
  const { out, residual, outputs, rows } = matmul;
  // A residual in the place of the result would be overwritten before it is added.
  const raw = residual === undefined ? out : { ...out, place: context.regions.blas.gate, stride: outputs };
  return [
    ...multiply(context, half, matmul, raw),
    {
      label: "epilogue",
      file: "matmul/epilogue",
      variants: [
        { kernel: "matmul_epilogue", defines: { BIAS_TYPE: matmul.biasType ?? 0, ...softCapDefines(matmul.softCap) } },
      ],
      arguments: {
        matmul: raw.place,
        row_scales: half.rowScales,
        row_count: context.rowCount(rows),
        bias: matmul.bias,
        factor: matmul.factor,
        residual: residual?.place ?? 0,
        out: out.place,
        width: outputs,
        matmul_stride: raw.stride,
        residual_stride: residual?.stride ?? 0,
        out_stride: out.stride,
      },
      grid: (size) => [Math.ceil(outputs / EPILOGUE_COLUMNS), rowsOf(size, rows), 1],
    },
  ];
}

/** The two matmuls of a gated linear unit, and where its result goes. */
export interface GatedMatmuls {
  readonly activation: Activation;
  readonly matmuls: readonly Matmul[];
  readonly out: ValuePlace;
}

/** Gate and up, of one soft-cap, into memory of their own, then activation(gate) × up as `wanted`, or as f32 rows. */
export function gatedBlasMatmuls(
  context: LoweringContext,
  input: MatmulInput,
  { activation, matmuls, out }: GatedMatmuls,
  wanted: MatmulInput | undefined,
): readonly StepItem[] {
  const half = requireHalf(input);
  const [gate, up] = matmuls;
  const { blas } = context.regions;
  const [gates, ups] = [blas.gate, blas.up].map((place) => ({ ...out, place, stride: out.width }));
  const toHalf = wanted?.form === "half" ? wanted : undefined;
  const stride = toHalf?.stride ?? out.stride;
  return [
    ...multiply(context, half, gate, gates),
    ...multiply(context, half, up, ups),
    {
      label: "gated epilogue",
      file: "matmul/epilogue",
      variants: [
        {
          kernel: toHalf === undefined ? "gated_epilogue" : "gated_epilogue_half",
          defines: {
            BIAS_TYPE: gate.biasType ?? up.biasType ?? 0,
            HELD: heldQuads(stride),
            ...matmulDefines(matmuls, activation),
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

function requireHalf(input: MatmulInput): HalfInput {
  if (input.form === "half") return input;
  throw new TypeError("the BLAS library takes f16 rows");
}
