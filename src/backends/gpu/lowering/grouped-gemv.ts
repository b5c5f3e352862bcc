// Launches of matmul/grouped-gemv.hip and matmul/grouped-gemv-float.hip: one grouped matmul, or the gate and up of experts
// with their activation as one.

import type {
  Activation,
  GroupedMatmulOperation,
  MatmulOperation,
  RouteExpertsOperation,
} from "../../../graph/operation.js";
import type { Defines } from "../kernels/kernel-source.js";
import type { ModuleRequest } from "../kernels/kernel-store.js";
import { activationDefines, routingDefines } from "./attributes.js";
import { type LoweringContext, rowsOf, type ValuePlace } from "./context.js";
import { MAX_QUADS, normedQuads } from "./fused-norm-shape.js";
import {
  type GroupedGemvParameters,
  type GroupedGemvRequest,
  type GroupedGemvShape,
  groupedGemvShape,
  isGroupedGemvShape,
  usualGroupedGemvParameters,
} from "./grouped-gemv-shape.js";
import type { NormedRows } from "./inputs.js";
import type { TunedVariant } from "./kernel-choices.js";
import type { LaunchSpec } from "./launch.js";
import { slotResults } from "./launch-results.js";
import type { QuantizedPlace } from "./regions.js";

const GROUPED_FILE = "matmul/grouped-gemv";
const GROUPED_FLOAT_FILE = "matmul/grouped-gemv-float";

/** The experts of each row: as `route-experts` left them, or chosen by the kernel itself from the router's logits. */
export type Routing =
  | { readonly from: "routing"; readonly rows: ValuePlace }
  | { readonly from: "logits"; readonly rows: ValuePlace; readonly operation: RouteExpertsOperation };

/** Quantized rows: one for each token, or for each slot of each token. */
export interface SlotRows {
  readonly place: QuantizedPlace;
  readonly perSlot: boolean;
  /** The rows that the kernel norms and quantizes itself instead. */
  readonly normed?: NormedRows;
  /** Rows that the kernel quantizes itself as they are; slots begin `slotStride` columns apart. */
  readonly floats?: ValuePlace & { readonly slotStride: number };
}

/** The gate and up of a shared expert, and the number of slots that it takes. */
export interface SharedSlots {
  readonly slots: number;
  readonly gate: MatmulOperation;
  readonly up: MatmulOperation;
}

export interface GroupedGemv {
  readonly label: string;
  /** One operation, or gate and up. */
  readonly matmuls: readonly [GroupedMatmulOperation] | readonly [GroupedMatmulOperation, GroupedMatmulOperation];
  /** Of gate and up. */
  readonly gated?: Activation;
  readonly input: SlotRows;
  readonly routing: Routing | undefined;
  /** Rows of the result, which go there unless `quantized` is given. */
  readonly out: ValuePlace;
  readonly quantized?: QuantizedPlace;
  /** Its results follow those of the slots. */
  readonly shared?: SharedSlots | undefined;
}

/** The parts of a launch that depend on how matrices are chosen. */
function routed(
  context: LoweringContext,
  routing: Routing | undefined,
): Pick<LaunchSpec, "arguments"> & { defines: object } {
  const rows = { routing: routing?.rows.place ?? 0, routing_stride: routing?.rows.stride ?? 0 };
  if (routing === undefined) return { defines: { ROUTED: 0 }, arguments: { ...rows, selection_bias: 0 } };
  if (routing.from === "routing") return { defines: { ROUTED: 1 }, arguments: { ...rows, selection_bias: 0 } };
  const { operation } = routing;
  return {
    defines: { ROUTED: 2, ...routingDefines(operation, routing.rows.width) },
    arguments: { ...rows, selection_bias: context.weight(operation.bias) },
  };
}

function shapeRequest(
  { options }: LoweringContext,
  { weight, outputs, slots }: GroupedMatmulOperation,
  wanted: Pick<GroupedGemvRequest, "form" | "types" | "floats">,
): GroupedGemvRequest {
  const { waveSize, multiprocessors } = options.device;
  return { outputs, slots, width: options.weights[weight].shape[0], ...wanted, waveSize, multiprocessors };
}

/** The parameters of a launch, whose module has these defines if it is cut so. */
function chosenParameters(
  { choices }: LoweringContext,
  request: GroupedGemvRequest,
  file: string,
  definesFor: (shape: GroupedGemvShape) => Defines,
): TunedVariant<GroupedGemvParameters> {
  const { form, floats, types, outputs, slots, width } = request;
  const moduleOf = (parameters: GroupedGemvParameters): ModuleRequest => ({
    file,
    defines: definesFor(groupedGemvShape(request, parameters)),
  });
  return choices.variant<GroupedGemvParameters>({
    family: "grouped-gemv",
    key: `${form}${floats ? " floats" : ""} ${types.join(",")} ${slots}x${outputs}x${width}`,
    usual: usualGroupedGemvParameters(request),
    isValid: (parameters) =>
      isGroupedGemvShape(request, parameters) && Number(moduleOf(parameters).defines["NORMED"] ?? 0) <= MAX_QUADS,
    moduleOf,
  });
}

/** What a kernel that makes its quantized rows itself is compiled with: kernels/matmul/normed-row.h. */
function rowDefines({ normed, floats }: SlotRows, width: number, threads: number): Defines {
  if (normed === undefined && floats === undefined) return {};
  const quads = { NORMED: normedQuads(width, threads) };
  return normed === undefined ? { ...quads, NORM: 0 } : { ...quads, WEIGHT_TYPE: normed.weightType };
}

function matrixDefines(context: LoweringContext, { matmuls, gated, shared }: GroupedGemv): Defines {
  const [first, second = first] = matmuls;
  const biased = matmuls.find(({ bias }) => bias !== undefined);
  return {
    TYPE0: context.typeOf(first.weight),
    BIAS_TYPE: biased?.bias === undefined ? 0 : context.typeOf(biased.bias),
    ...(gated === undefined ? {} : { GATED: 1, TYPE1: context.typeOf(second.weight), ...activationDefines(gated) }),
    ...(shared === undefined
      ? {}
      : {
          SHARED_SLOTS: shared.slots,
          SHARED_TYPE0: context.typeOf(shared.gate.weight),
          SHARED_TYPE1: context.typeOf(shared.up.weight),
        }),
  };
}

export function groupedGemvLaunch(context: LoweringContext, wanted: GroupedGemv): LaunchSpec {
  const { matmuls, gated, input, routing, out, quantized, shared } = wanted;
  const [first, second = first] = matmuls;
  const form = quantized !== undefined ? "gated to quantized rows" : gated === undefined ? "plain" : "gated";
  const sharedWeights = shared === undefined ? [] : [shared.gate, shared.up];
  const types = [first, second, ...sharedWeights].map(({ weight }) => context.typeOf(weight));
  const request = shapeRequest(context, first, { form, types, floats: false });
  const choice = routed(context, routing);
  const { normed, floats } = input;
  const definesFor = ({ defines }: GroupedGemvShape): Defines => ({
    ...matrixDefines(context, wanted),
    ...choice.defines,
    ...defines,
    ...rowDefines(input, request.width, defines["THREADS"]),
  });
  const tuned = chosenParameters(context, request, GROUPED_FILE, definesFor);
  const shape = groupedGemvShape(request, tuned.parameters);
  return {
    label: wanted.label,
    file: GROUPED_FILE,
    variants: [{ kernel: "grouped_gemv", defines: definesFor(shape), sharedBytes: shape.sharedBytes, tuned }],
    arguments: {
      ...choice.arguments,
      values: input.place.values,
      scales: input.place.scales,
      sums: input.place.sums,
      normed_rows: (normed ?? floats)?.place ?? 0,
      normed_stride: (normed ?? floats)?.stride ?? 0,
      normed_slot_stride: floats?.slotStride ?? 0,
      norm_weight: normed?.weight ?? 0,
      norm_epsilon: normed?.epsilon ?? 0,
      row_count: context.rowCount(out.rows),
      ...Object.fromEntries(
        [first, second].flatMap(({ weight, bias, scale, matrixRows, firstOutput }, index) => [
          [`weights${index}`, context.weight(weight)],
          [`bias${index}`, context.weight(bias)],
          [`factor${index}`, context.weight(scale)],
          [`matrix_rows${index}`, matrixRows],
          [`first${index}`, firstOutput],
        ]),
      ),
      shared0: context.weight(shared?.gate.weight),
      shared1: context.weight(shared?.up.weight),
      out: out.place,
      stride: out.stride,
      out_slot_stride: out.slotStride ?? first.outputs,
      quantized_values: quantized?.values ?? 0,
      quantized_scales: quantized?.scales ?? 0,
      quantized_sums: quantized?.sums ?? 0,
      width: request.width,
      slots: first.slots,
      slot_inputs: input.perSlot ? 1 : 0,
      weighted: first.weighted && routing !== undefined ? 1 : 0,
      rows: first.outputs,
      passes: shape.passes,
    },
    recut: (choices) => groupedGemvLaunch(context.withChoices(choices), wanted),
    results: slotResults(out, first.outputs, first.slots, quantized, shared?.slots ?? 0),
    grid: (size) => [shape.blocks, first.slots + (shared?.slots ?? 0), rowsOf(size, out.rows)],
  };
}

/** A grouped matmul with plain weights: slots read f32 columns of `input`. */
export function groupedGemvFloatLaunch(
  context: LoweringContext,
  operation: GroupedMatmulOperation,
  {
    input,
    routing,
    out,
  }: { readonly input: ValuePlace; readonly routing: ValuePlace | undefined; readonly out: ValuePlace },
): LaunchSpec {
  const { weight, bias, scale, slots } = operation;
  const request = shapeRequest(context, operation, { form: "plain", types: [context.typeOf(weight)], floats: true });
  const definesFor = ({ defines }: GroupedGemvShape): Defines => ({
    TYPE0: context.typeOf(weight),
    BIAS_TYPE: bias === undefined ? 0 : context.typeOf(bias),
    ROUTED: routing === undefined ? 0 : 1,
    ...defines,
  });
  const tuned = chosenParameters(context, request, GROUPED_FLOAT_FILE, definesFor);
  const shape = groupedGemvShape(request, tuned.parameters);
  return {
    label: "grouped gemv",
    file: GROUPED_FLOAT_FILE,
    variants: [{ kernel: "grouped_gemv_float", defines: definesFor(shape), tuned }],
    arguments: {
      inputs: input.place,
      row_count: context.rowCount(out.rows),
      routing: routing?.place ?? 0,
      weights: context.weight(weight),
      bias: context.weight(bias),
      factor: context.weight(scale),
      out: out.place,
      input_stride: input.stride,
      slot_stride: operation.inputStride,
      routing_stride: routing?.stride ?? 0,
      width: request.width,
      slots,
      weighted: operation.weighted && routing !== undefined ? 1 : 0,
      matrix_rows: operation.matrixRows,
      first: operation.firstOutput,
      rows: operation.outputs,
      stride: out.stride,
      out_slot_stride: out.slotStride ?? operation.outputs,
      passes: shape.passes,
    },
    recut: (choices) => groupedGemvFloatLaunch(context.withChoices(choices), operation, { input, routing, out }),
    results: slotResults(out, operation.outputs, slots),
    grid: (size) => [shape.blocks, slots, rowsOf(size, out.rows)],
  };
}
