// Launches of matmul/grouped-gemm.hip: f16 rows times the matrices of a stack on the matrix units, a tile of slots that
// share a matrix at a time. Tiles come from the order of experts, or without a router from the heads' numbers.

import type { Activation, GroupedMatmulOperation, WeightId } from "../../../graph/operation.js";
import type { Defines } from "../kernels/kernel-source.js";
import { activationDefines } from "./attributes.js";
import { classOf, type LoweringContext, type LoweringSize, rowsOf, type ValuePlace } from "./context.js";
import { expertOrderLaunch, MAX_ORDERED_EXPERTS, tileIndex } from "./expert-order.js";
import { matrixCount, maxTiles, type RoutedMatmul } from "./expert-tiles.js";
import { TILE_TOKEN_COUNTS, type TileTokens } from "./gemm-shape.js";
import {
  fitsWideTile,
  type GroupedGemmParameters,
  type GroupedGemmRequest,
  groupedGemmShape,
  isGroupedGemmShape,
  usualGroupedGemmParameters,
} from "./grouped-gemm-shape.js";
import { groupChunks, type GroupedHalves, prepareGroupedInput } from "./grouped-input.js";
import type { SlotInput } from "./inputs.js";
import type { LaunchSize, LaunchSpec, LaunchVariant } from "./launch.js";
import { floatResult, slotResults } from "./launch-results.js";
import { isPlain, matmulMethod } from "./matmul-selection.js";
import { FLOAT_BYTES, slotHalves } from "./regions.js";
import { shifted } from "./scratch.js";

const FILES = { grouped_gemm: "matmul/grouped-gemm", grouped_wide: "matmul/grouped-wide" } as const;
/** Rows of one block of the kernel; of gate and up half as many of each. */
const BLOCK_ROWS = 128;
/** Halves that one copy brings: slots have to begin at multiples of it. */
const COPY_HALVES = 8;
/** Tiles of tokens that a block of a shared expert has: as many as its registers hold sums of, beside an expert's. */
const SHARED_PARTS: Readonly<Record<TileTokens, number>> = { 16: 2, 32: 1, 64: 1, 128: 1 };
/** Architectures with the products of matmul/grouped-wide.hip. */
const WIDE_ARCHITECTURES: ReadonlySet<string> = new Set(["sm_90"]);
const MIN_WIDE_TOKENS = 64;

/** Gate and up, or one matmul. */
export interface GroupedGemm {
  readonly matmuls: readonly [GroupedMatmulOperation] | readonly [GroupedMatmulOperation, GroupedMatmulOperation];
  /** Of gate and up. */
  readonly gated?: Activation;
  readonly out: ValuePlace;
  readonly shared?: SharedMatrices;
}

/** The matrices of a shared expert, as many as there are matmuls, and where its results go. */
export interface SharedMatrices {
  readonly weights: readonly WeightId[];
  readonly out: ValuePlace;
}

/** Whether the grouped GEMM computes this operation for batches of this size; otherwise the grouped GEMV does. */
export function usesGroupedGemm(
  { options, values }: LoweringContext,
  operation: GroupedMatmulOperation,
  size: LoweringSize,
): boolean {
  const weight = options.weights[operation.weight];
  const input = values[operation.input];
  const method = matmulMethod(weight, classOf(size, input.rows), {
    deterministic: options.deterministic,
    blas: false,
    exact: options.fused.program.kv.states !== undefined,
  });
  return (
    method === "gemm" &&
    operation.inputStride % COPY_HALVES === 0 &&
    input.width % COPY_HALVES === 0 &&
    (operation.routing === undefined || matrixCount(operation, weight) <= MAX_ORDERED_EXPERTS)
  );
}

/** Gate and up that one launch can compute: of one type and shape, from one input. */
export function canBeGated(
  context: LoweringContext,
  gate: GroupedMatmulOperation,
  up: GroupedMatmulOperation,
): boolean {
  const biases = [gate, up].flatMap(({ bias }) => (bias === undefined ? [] : [context.typeOf(bias)]));
  const alike = (["input", "routing", "slots", "matrixRows", "inputStride", "outputs", "weighted"] as const).every(
    (field) => gate[field] === up[field],
  );
  return alike && context.typeOf(gate.weight) === context.typeOf(up.weight) && new Set(biases).size <= 1;
}

/** Everything that a group of the program needs to compute one matmul, or gate and up, by grouped GEMM. */
export function groupedGemm(
  context: LoweringContext,
  wanted: GroupedGemm,
  groupIndex: number,
  size: LoweringSize,
  handed?: SlotInput,
): readonly LaunchSpec[] {
  const [operation] = wanted.matmuls;
  const order = isRouted(operation) && isFirstInOrder(context, operation, groupIndex, size);
  return [
    ...(order ? [expertOrderLaunch(context, operation)] : []),
    ...byWidth(context, operation, (wide, isNeeded) => {
      if (handed !== undefined)
        return [
          groupedGemmLaunch(context, { ...handed, form: wide ? "wide" : "slots", lowHalves: 0 }, wanted, isNeeded),
        ];
      const { launches, input } = prepareGroupedInput(context, operation, wide, isNeeded);
      return [...launches, groupedGemmLaunch(context, input, wanted, isNeeded)];
    }),
  ];
}

/** Where the group before may leave the input of this operation; undefined: nowhere, or in the form of a GEMV. */
export function slotInput(
  context: LoweringContext,
  operation: GroupedMatmulOperation,
  size: LoweringSize,
): SlotInput | undefined {
  const { options, regions } = context;
  if (isRouted(operation) || isPlain(options.weights[operation.weight])) return undefined;
  if (operation.inputStride === 0 || !usesGroupedGemm(context, operation, size)) return undefined;
  const canBeWide = TILE_TOKEN_COUNTS.some((tile) => isWideTile(context, operation, tile));
  const form = canBeWide ? "wide" : "half";
  const { halves, rowScales, stride, slots } = slotHalves(options, operation, regions.handedInput, form);
  const isWide = (step: LaunchSize): boolean => isWideTile(context, operation, tileOf(context, operation, step));
  const chunks = groupChunks(context.typeOf(operation.weight));
  return { form: "slots", halves, rowScales, stride, slots, canBeWide, isWide, groupChunks: chunks };
}

/** Launches for steps whose tiles take wide products, and for the others; `isNeeded` names the steps of each. */
export function byWidth(
  context: LoweringContext,
  operation: GroupedMatmulOperation,
  launchesOf: (wide: boolean, isNeeded: (step: LaunchSize) => boolean) => readonly LaunchSpec[],
): readonly LaunchSpec[] {
  const isWide = (step: LaunchSize): boolean => isWideTile(context, operation, tileOf(context, operation, step));
  const parts = TILE_TOKEN_COUNTS.some((tile) => isWideTile(context, operation, tile)) ? [false, true] : [false];
  return parts.flatMap((wide) => launchesOf(wide, (step) => isWide(step) === wide));
}

/** Whether tiles of this size are computed by wide products. */
function isWideTile({ options }: LoweringContext, { weight }: GroupedMatmulOperation, tile: TileTokens): boolean {
  const { architecture, sharedBytes } = options.device;
  return (
    architecture !== undefined &&
    WIDE_ARCHITECTURES.has(architecture) &&
    tile >= MIN_WIDE_TOKENS &&
    !isPlain(options.weights[weight]) &&
    fitsWideTile(tile, sharedBytes)
  );
}

/** Tokens of the tiles of a step. */
function tileOf(context: LoweringContext, operation: GroupedMatmulOperation, size: LaunchSize): TileTokens {
  const tokens = rowsOf(size, context.values[operation.input].rows);
  return TILE_TOKEN_COUNTS[isRouted(operation) ? tileIndex(context, operation, size) : headTile(tokens)];
}

/** Whether no group before this one has sorted the slots of the same routing. */
function isFirstInOrder(
  context: LoweringContext,
  { routing }: RoutedMatmul,
  groupIndex: number,
  size: LoweringSize,
): boolean {
  const { groups } = context.options.fused;
  const reads = groups.findIndex(({ parts }) =>
    parts.some(
      (part) => part.kind === "grouped-matmul" && part.routing === routing && usesGroupedGemm(context, part, size),
    ),
  );
  return reads === groupIndex;
}

/** Whether a router chooses the matrices. */
export function isRouted(operation: GroupedMatmulOperation): operation is RoutedMatmul {
  return operation.routing !== undefined;
}

/** Index of the tile of a step without a router: the smallest that holds all tokens, or the largest. */
function headTile(tokens: number): number {
  const index = TILE_TOKEN_COUNTS.findIndex((count) => tokens <= count);
  return index === -1 ? TILE_TOKEN_COUNTS.length - 1 : index;
}

function kernelOf(form: GroupedHalves["form"]): keyof typeof FILES {
  return form === "wide" ? "grouped_wide" : "grouped_gemm";
}

/** The launch of one matmul, or of gate and up, for steps that `isNeeded` names. */
export function groupedGemmLaunch(
  context: LoweringContext,
  input: GroupedHalves,
  wanted: GroupedGemm,
  isNeeded: (size: LaunchSize) => boolean,
): LaunchSpec {
  const { matmuls, gated, out, shared } = wanted;
  const [first, second = first] = matmuls;
  const weight = context.options.weights[first.weight];
  const { expertOrder } = context.regions;
  const rowBlocks = Math.ceil(first.outputs / (gated === undefined ? BLOCK_ROWS : BLOCK_ROWS / 2));
  const routed = isRouted(first) ? first : undefined;
  const routing = routed === undefined ? undefined : context.matrix(routed.routing);
  const tokensOf = (size: LaunchSize): number => rowsOf(size, out.rows);
  const tile = (size: LaunchSize): TileTokens => tileOf(context, first, size);
  const tiles = TILE_TOKEN_COUNTS.filter((count) => isWideTile(context, first, count) === (input.form === "wide"));
  const tokenBlocks = (size: LaunchSize): number => Math.ceil(tokensOf(size) / tile(size));
  return {
    label: gated === undefined ? "grouped gemm" : "gate and up, grouped gemm",
    file: FILES[kernelOf(input.form)],
    variants: tiles.map((count) => variantOf(context, wanted, input.form, count)),
    choose: (size) => Math.max(0, tiles.indexOf(tile(size))),
    arguments: {
      halves: input.halves,
      low_halves: input.lowHalves,
      row_scales: input.rowScales,
      row_count: context.rowCount(out.rows),
      slots: routed === undefined ? 0 : expertOrder.slots,
      tiles: routed === undefined ? 0 : expertOrder.tiles,
      tile_count: routed === undefined ? 0 : expertOrder.tileCount,
      slot_weights: routing === undefined || !first.weighted ? 0 : shifted(routing.place, first.slots * FLOAT_BYTES),
      weights_stride: routing?.stride ?? 0,
      weights0: context.weight(first.weight),
      weights1: context.weight(second.weight),
      bias0: context.weight(first.bias),
      bias1: context.weight(second.bias),
      factor0: context.weight(first.scale),
      factor1: context.weight(second.scale),
      out: out.place,
      shared_weights0: context.weight(shared?.weights[0]),
      shared_weights1: context.weight(shared?.weights.at(-1)),
      shared_out: shared?.out.place ?? 0,
      rows: first.outputs,
      matrix_rows: first.matrixRows,
      first_row0: first.firstOutput,
      first_row1: second.firstOutput,
      width: weight.shape[0],
      halves_stride: input.stride,
      slot_columns: first.inputStride,
      out_stride: out.stride,
      out_slot_stride: out.slotStride ?? first.outputs,
      shared_out_stride: shared?.out.stride ?? 0,
    },
    recut: (choices) => groupedGemmLaunch(context.withChoices(choices), input, wanted, isNeeded),
    results: [
      ...slotResults(out, first.outputs, first.slots),
      ...(shared === undefined ? [] : [floatResult(shared.out, first.outputs)]),
    ],
    sized: (size) => ({ token_blocks: tokenBlocks(size) }),
    grid: (size) => {
      const most =
        routed === undefined
          ? first.slots * tokenBlocks(size)
          : maxTiles(tokensOf(size), first.slots, matrixCount(first, weight), tile(size)) +
            (shared === undefined ? 0 : Math.ceil(tokensOf(size) / (tile(size) * SHARED_PARTS[tile(size)])));
      return isNeeded(size) ? [rowBlocks, most, 1] : [0, 0, 0];
    },
  };
}

function variantOf(
  context: LoweringContext,
  wanted: GroupedGemm,
  form: GroupedHalves["form"],
  tile: TileTokens,
): LaunchVariant {
  const { gated, shared, matmuls } = wanted;
  const [first] = matmuls;
  const { kind, device, weights } = context.options;
  const wide = form === "wide";
  const request: GroupedGemmRequest = {
    tile,
    wide,
    plain: form === "split",
    parts: shared === undefined || wide ? 1 : SHARED_PARTS[tile],
    kind,
    sharedBytes: device.sharedBytes,
  };
  const definesFor = (parameters: GroupedGemmParameters): Defines => ({
    ...matrixDefines(context, wanted, form, request),
    ...groupedGemmShape(request, parameters).defines,
  });
  const matrices = matrixCount(first, weights[first.weight]);
  const tuned = context.choices.variant<GroupedGemmParameters>({
    family: "grouped-gemm",
    key: `${gated === undefined ? "" : "gated "}${shared === undefined ? "" : "shared "}${context.typeOf(first.weight)} ${first.slots}of${matrices}x${first.outputs}x${weights[first.weight].shape[0]} t${tile}`,
    usual: usualGroupedGemmParameters(request),
    isValid: (parameters) => isGroupedGemmShape(request, parameters),
    moduleOf: (parameters) => ({ file: FILES[kernelOf(form)], defines: definesFor(parameters) }),
  });
  const { sharedBytes } = groupedGemmShape(request, tuned.parameters);
  return { kernel: kernelOf(form), defines: definesFor(tuned.parameters), sharedBytes, tuned };
}

/** What of a kernel's defines has nothing to do with how its blocks work. */
function matrixDefines(
  context: LoweringContext,
  { matmuls: [first, second = first], gated, shared }: GroupedGemm,
  form: GroupedHalves["form"],
  { tile, plain, parts }: GroupedGemmRequest,
): Defines {
  const bias = first.bias ?? second.bias;
  return {
    TYPE0: context.typeOf(first.weight),
    TOKENS: tile,
    USED: first.slots,
    ROUTED: first.routing === undefined ? 0 : 1,
    GATED: gated === undefined ? 0 : 1,
    ...(bias === undefined ? {} : { BIASED: 1, BIAS_TYPE: context.typeOf(bias) }),
    ...([first, second].some(({ scale }) => scale !== undefined) ? { SCALED: 1 } : {}),
    ...(isRouted(first) && first.weighted ? { WEIGHTED: 1 } : {}),
    ...(plain ? { SPLIT: 1 } : {}),
    ...(shared === undefined ? {} : { SHARED_EXPERT: 1 }),
    ...(parts === 1 ? {} : { SHARED_PARTS: parts }),
    ...(form === "slots" && shared === undefined ? { SLOT_ROWS: 1 } : {}),
    ...(gated === undefined ? {} : activationDefines(gated)),
  };
}
