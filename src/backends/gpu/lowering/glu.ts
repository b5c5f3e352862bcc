// Launches of gated linear units, alone and after the norm of heads that they gate. Their results are f32 rows, or what the
// matmul after them takes.

import type { GatedNormGroup } from "../../../graph/gated-norm.js";
import type { Activation, GluOperation } from "../../../graph/operation.js";
import type { Defines } from "../kernels/kernel-source.js";
import { activationDefines } from "./attributes.js";
import type { LoweringContext, ValuePlace } from "./context.js";
import type { MatmulInput } from "./inputs.js";
import type { LaunchSpec } from "./launch.js";
import type { SomeOperationLowerings } from "./operation-lowering.js";
import { heldQuads, rowGrid } from "./rows.js";

/** Where the two inputs and the result of a gated linear unit lie. */
export interface GluPlaces {
  readonly gate: ValuePlace;
  readonly up: ValuePlace;
  readonly out: ValuePlace;
}

/** activation(gate) × up as a launch of its own; the result goes to `wanted` if given, else to `out`. */
export function gluRows(
  context: LoweringContext,
  activation: Activation,
  { gate, up, out }: GluPlaces,
  wanted?: MatmulInput,
): LaunchSpec {
  const column = isColumn(gate, out) ? { GATE_COLUMN: 1 } : {};
  return gatedLaunch(context, { label: "glu", file: "rows/glu", kernel: "glu", out, wanted }, activation, column, {
    gate: gate.place,
    up: up.place,
    gate_stride: gate.stride,
    up_stride: up.stride,
  });
}

/** activation(gate) × norm of heads. */
export function gatedNorm(
  context: LoweringContext,
  { norm, activation }: GatedNormGroup,
  wanted: MatmulInput | undefined,
): LaunchSpec {
  const { weight, epsilon, groupWidth } = norm;
  const [gate, input] = [context.matrix(activation.gate), context.matrix(norm.input)];
  const type = weight === undefined ? { WEIGHTED: 0 } : { WEIGHT_TYPE: context.typeOf(weight) };
  const out = context.matrix(activation.out);
  return gatedLaunch(
    context,
    { label: "gated norm of heads", file: "rows/gated-norm", kernel: "gated_norm", out, wanted },
    activation.activation,
    { GROUP_QUADS: groupWidth / 4, ...type },
    {
      gate: gate.place,
      input: input.place,
      weight: context.weight(weight),
      gate_stride: gate.stride,
      input_stride: input.stride,
      epsilon,
    },
  );
}

interface GatedKernel {
  readonly label: string;
  readonly file: string;
  /** The beginning of the kernels' names. */
  readonly kernel: string;
  readonly out: ValuePlace;
  readonly wanted: MatmulInput | undefined;
}

function gatedLaunch(
  context: LoweringContext,
  { label, file, kernel, out, wanted }: GatedKernel,
  activation: Activation,
  defines: Defines,
  read: LaunchSpec["arguments"],
): LaunchSpec {
  const { ending, written } = targetOf(wanted, out);
  return {
    label,
    file,
    variants: [
      {
        kernel: `${kernel}_${ending}`,
        defines: { HELD: heldQuads(out.width), ...defines, ...activationDefines(activation) },
      },
    ],
    arguments: { ...read, row_count: context.rowCount(out.rows), width: out.width, ...written },
    grid: rowGrid(out.rows),
  };
}

/** The ending of a kernel's name for a form of rows, and the arguments of what it writes. */
function targetOf(
  wanted: MatmulInput | undefined,
  out: ValuePlace,
): { readonly ending: string; readonly written: LaunchSpec["arguments"] } {
  switch (wanted?.form) {
    case "quantized":
      return { ending: "quantize", written: { values: wanted.values, scales: wanted.scales, sums: wanted.sums } };
    case "half":
      return {
        ending: "half",
        written: { halves: wanted.halves, row_scales: wanted.rowScales, out_stride: wanted.stride },
      };
    case "floats":
      return { ending: "rows", written: { out: wanted.input, out_stride: wanted.stride } };
    case undefined:
      return { ending: "rows", written: { out: out.place, out_stride: out.stride } };
    case "panels":
      throw new TypeError("a gated linear unit does not write panels");
    default:
      return wanted satisfies never;
  }
}

/** Whether a gated linear unit can leave its result in any form: its gate has a column for each of the result. */
export function gluGives({ values }: LoweringContext, { gate, out }: GluOperation): boolean {
  return values[gate].width === values[out].width;
}

function isColumn(gate: ValuePlace, out: ValuePlace): boolean {
  return gate.width === 1 && out.width !== 1;
}

export const GLU_LOWERINGS = {
  glu: {
    lower: (context, { activation, gate, up, out }, { wanted }) => [
      gluRows(
        context,
        activation,
        { gate: context.matrix(gate), up: context.matrix(up), out: context.matrix(out) },
        wanted?.form === "slots" ? undefined : wanted,
      ),
    ],
  },
} satisfies SomeOperationLowerings;
