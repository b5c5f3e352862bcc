// A network of experts as few launches, for small batches and for deterministic mode: the router with its norm; gate, up and
// activation of the chosen experts; and the last matmul with the sum over slots and the residual. The experts are chosen
// inside of the last two. A shared expert is part of them, or has two launches of its own before them.

import type { ExpertNetwork } from "../../../graph/expert-network.js";
import type { MatmulOperation } from "../../../graph/operation.js";
import type { Defines } from "../kernels/kernel-source.js";
import { routingDefines } from "./attributes.js";
import { classOf, type LoweringContext, type LoweringSize, rowsOf, type ValuePlace } from "./context.js";
import {
  type ExpertSumParameters,
  type ExpertSumRequest,
  type ExpertSumShape,
  expertSumShape,
  usualExpertSumParameters,
} from "./expert-sum-shape.js";
import { canBeNormed, normedQuads } from "./fused-norm-shape.js";
import { groupedGemvLaunch, type SlotRows } from "./grouped-gemv.js";
import { isAligned, type NormedRows, normedRows, prepareInput } from "./inputs.js";
import type { LaunchSpec } from "./launch.js";
import type { MatmulLowering } from "./matmul-groups.js";
import { isPlain } from "./matmul-selection.js";
import { FLOAT_BYTES, groupedInput, networkInput, type QuantizedPlace } from "./regions.js";
import { normRows } from "./rows.js";
import { isRouterRow, sharedSlots } from "./shared-slots.js";
import type { StepItem } from "./step-item.js";

const SUM_FILE = "matmul/expert-sum";
const ROUTER_THREADS = 128;
/** More quads than this of a row would not stay in a thread's registers. */
const MAX_ROUTER_QUADS = 8;
/** Threads of rows/expert-choice.h that choose. */
const CHOICE_THREADS = 128;

/** Whether steps of this size compute the network as few launches. Deterministic mode always does, or never. */
export function isFusedNetwork(context: LoweringContext, network: ExpertNetwork, size: LoweringSize): boolean {
  const { options, values } = context;
  const { gate, up, down, route, norm, shared } = network;
  const isSmall = options.deterministic || classOf(size, values[network.out].rows) === "small";
  if (!isSmall || route.used > CHOICE_THREADS) return false;
  if ([gate, up, down].some(({ weight }) => isPlain(options.weights[weight]))) return false;
  const biases = [gate, up].flatMap(({ bias }) => (bias === undefined ? [] : [context.typeOf(bias)]));
  if (new Set(biases).size > 1 || options.weights[gate.weight].shape[0] !== options.weights[up.weight].shape[0])
    return false;
  if (norm !== undefined) {
    const input = context.matrix(norm.input);
    if (!canBeNormed(input.width) || !isAligned(input)) return false;
  }
  // The shared expert's weight goes into the scales of its slots, and the router's launch makes it.
  if (shared?.weight !== undefined) {
    const isWeighedThere = sharedSlots(options, network) > 0 && isRouterRow(options, network);
    if (!isWeighedThere || !isReadByRouter(context, network)) return false;
  }
  return expertSumShape(sumRequest(context, network)) !== undefined;
}

/** Whether the router's launch norms the row itself. */
function isReadByRouter({ options, values }: LoweringContext, { norm, router }: ExpertNetwork): boolean {
  if (norm === undefined || router === undefined) return false;
  const held = Math.ceil(values[norm.input].width / (4 * ROUTER_THREADS));
  return isPlain(options.weights[router.weight]) && router.scale === undefined && held <= MAX_ROUTER_QUADS;
}

/** The launches of a network that is fused. */
export function lowerNetwork(
  context: LoweringContext,
  matmuls: MatmulLowering,
  network: ExpertNetwork,
): readonly StepItem[] {
  const { norm, normIsRead, shared, sum, out: result } = network;
  const out = context.matrix(result);
  const items: StepItem[] = [];
  if (norm !== undefined && normIsRead) items.push(normRows(context, norm));
  items.push(...lowerLogits(context, matmuls, network));
  let residual = network.residual === undefined ? undefined : context.matrix(network.residual);
  if (shared !== undefined && norm !== undefined && sharedSlots(context.options, network) === 0) {
    items.push(...matmuls.gatedDown(norm, shared, { out, ...(residual === undefined ? {} : { residual }) }));
    residual = out;
  }
  return [...items, ...lowerExperts(context, network, residual, sum.out === result ? context.matrix(sum.out) : out)];
}

/** The router's logits, from a row that it norms itself. */
function lowerLogits(context: LoweringContext, matmuls: MatmulLowering, network: ExpertNetwork): readonly StepItem[] {
  const { norm, router, shared } = network;
  if (norm === undefined || router === undefined) return [];
  const input = context.matrix(norm.input);
  if (!isReadByRouter(context, network)) return matmuls.project({ norm, matmuls: [router] }, undefined);
  return [routerLaunch(context, input, normedRows(context, input, norm), router, shared?.weight)];
}

function routerLaunch(
  context: LoweringContext,
  input: ValuePlace,
  normed: NormedRows,
  { weight, bias, out: result }: MatmulOperation,
  shared: MatmulOperation | undefined,
): LaunchSpec {
  const out = context.matrix(result);
  return {
    label: "router",
    file: "matmul/router",
    variants: [
      {
        kernel: "normed_router",
        defines: {
          TYPE0: context.typeOf(weight),
          WEIGHT_TYPE: normed.weightType,
          BIAS_TYPE: bias === undefined ? 0 : context.typeOf(bias),
          THREADS: ROUTER_THREADS,
          HELD: normedQuads(input.width, ROUTER_THREADS),
        },
      },
    ],
    arguments: {
      input: normed.place,
      norm_weight: normed.weight,
      weights: context.weight(weight),
      bias: context.weight(bias),
      shared: context.weight(shared?.weight),
      row_count: context.rowCount(out.rows),
      out: out.place,
      shared_out: shared === undefined ? 0 : context.regions.sharedExpert.weight,
      experts: out.width,
      width: input.width,
      input_stride: normed.stride,
      out_stride: out.stride,
      epsilon: normed.epsilon,
    },
    grid: (size) => [out.width + (shared === undefined ? 0 : 1), rowsOf(size, out.rows), 1],
  };
}

/** Gate, up and activation as quantized rows, then the last matmul of all slots with their sum. */
function lowerExperts(
  context: LoweringContext,
  network: ExpertNetwork,
  residual: ValuePlace | undefined,
  out: ValuePlace,
): readonly LaunchSpec[] {
  const { route, gate, up, activation, norm, shared } = network;
  const logits = context.matrix(route.input);
  const quantized = networkInput(context.options, network, context.regions.handedInput);
  const slots = sharedSlots(context.options, network);
  const { launches, input } = expertInput(context, network);
  const gated = groupedGemvLaunch(context, {
    label: norm === undefined ? "experts' gate and up" : "normed experts' gate and up",
    matmuls: [gate, up],
    gated: activation.activation,
    input,
    routing: { from: "logits", rows: logits, operation: route },
    // Every result goes to the quantized rows.
    out: { place: quantized.values, stride: 0, width: gate.outputs, rows: out.rows },
    quantized,
    ...(slots === 0 || shared === undefined ? {} : { shared: { slots, gate: shared.gate, up: shared.up } }),
  });
  return [...launches, gated, sumLaunch(context, network, { logits, quantized, residual, out })];
}

function expertInput(
  context: LoweringContext,
  { norm, gate }: ExpertNetwork,
): { readonly launches: readonly LaunchSpec[]; readonly input: SlotRows } {
  if (norm !== undefined) {
    const place = groupedInput(context.options, gate, context.regions.input).place;
    return {
      launches: [],
      input: { place, perSlot: false, normed: normedRows(context, context.matrix(norm.input), norm) },
    };
  }
  const { launches, input } = prepareInput(context, context.matrix(gate.input), undefined, "quantized");
  if (input.form !== "quantized") throw new TypeError("experts with quantized weights take quantized rows");
  return { launches, input: { place: input, perSlot: false } };
}

interface SumPlaces {
  readonly logits: ValuePlace;
  readonly quantized: QuantizedPlace;
  readonly residual: ValuePlace | undefined;
  readonly out: ValuePlace;
}

function sumRequest({ options }: LoweringContext, network: ExpertNetwork): ExpertSumRequest {
  const { down, route } = network;
  const { waveSize, multiprocessors } = options.device;
  const [width] = options.weights[down.weight].shape;
  return {
    rows: down.outputs,
    slots: route.used,
    sharedSlots: sharedSlots(options, network),
    width,
    waveSize,
    multiprocessors,
  };
}

function sumLaunch(
  context: LoweringContext,
  network: ExpertNetwork,
  { logits, quantized, residual, out }: SumPlaces,
): LaunchSpec {
  const { route, down } = network;
  const slots = sharedSlots(context.options, network);
  const shared = slots === 0 ? undefined : network.shared?.down.weight;
  const request = sumRequest(context, network);
  const cut = (parameters: ExpertSumParameters): ExpertSumShape => {
    const shape = expertSumShape(request, parameters);
    if (shape === undefined) throw new TypeError("the inputs of the experts do not fit shared memory");
    return shape;
  };
  const type = context.typeOf(down.weight);
  const definesFor = ({ defines }: ExpertSumShape): Defines => ({
    TYPE0: type,
    BIAS_TYPE: down.bias === undefined ? 0 : context.typeOf(down.bias),
    WEIGHED: down.weighted ? 1 : 0,
    ...(shared === undefined ? {} : { SHARED_SLOTS: slots, SHARED_TYPE: context.typeOf(shared) }),
    ...routingDefines(route, logits.width),
    ...defines,
  });
  const tuned = context.choices.variant<ExpertSumParameters>({
    family: "expert-sum",
    key: `${type} ${request.slots}+${request.sharedSlots}x${request.rows}x${request.width}`,
    usual: usualExpertSumParameters(request),
    isValid: () => true,
    moduleOf: (parameters) => ({ file: SUM_FILE, defines: definesFor(cut(parameters)) }),
  });
  const shape = cut(tuned.parameters);
  return {
    label: "sum of experts",
    file: SUM_FILE,
    variants: [{ kernel: "expert_sum", defines: definesFor(shape), sharedBytes: shape.sharedBytes, tuned }],
    arguments: {
      values: quantized.values,
      scales: quantized.scales,
      sums: quantized.sums,
      row_count: context.rowCount(out.rows),
      logits: logits.place,
      logits_stride: logits.stride,
      selection_bias: context.weight(route.bias),
      weights: context.weight(down.weight),
      shared: context.weight(shared),
      shared_weight: network.shared?.weight === undefined ? 0 : context.regions.sharedExpert.weight,
      bias: context.weight(down.bias),
      factor: context.weight(down.scale),
      residual: residual?.place ?? 0,
      residual_stride: residual?.stride ?? 0,
      out: out.place,
      rows: down.outputs,
      stride: out.stride,
    },
    recut: (choices) => sumLaunch(context.withChoices(choices), network, { logits, quantized, residual, out }),
    results: [
      {
        place: out.place,
        type: "f32",
        rows: out.rows,
        rowBytes: down.outputs * FLOAT_BYTES,
        strideBytes: out.stride * FLOAT_BYTES,
      },
    ],
    grid: (size) => [shape.blocks, rowsOf(size, out.rows), 1],
  };
}
