// The parts of a program's scratch memory, sized for its largest step: values, matmul inputs in the form that matmuls
// take them, partial results of attention and GEMM, and results.

import type { ExpertNetwork } from "../../../graph/expert-network.js";
import type { Group } from "../../../graph/fusion.js";
import type {
  AttentionOperation,
  GroupedMatmulOperation,
  MatmulOperation,
  Operation,
} from "../../../graph/operation.js";
import type { RowSymbol } from "../../../graph/program.js";
import { roundUp } from "../memory/device-memory.js";
import { partialFloats, splitsOf } from "../memory/kv-layout.js";
import { type HostRowsPlace, planHostRows } from "./host-rows-place.js";
import type { TensorDescriptor } from "../../../tensor/descriptor.js";
import { type ExpertOrderRegion, reserveExpertOrder, type RoutedMatmul } from "./expert-tiles.js";
import { reserveSharedExpert, type SharedExpertRegion, sharedSlots } from "./shared-slots.js";
import type { MemoryPlace } from "./launch.js";
import { keepsPrecision, isPlain, largestUnpackedBytes, MAX_SMALL_BATCH } from "./matmul-selection.js";
import { maxResultWords, chunkBytes } from "./output-rows.js";
import type { GpuLoweringOptions } from "./context.js";
import { Scratch, shifted } from "./scratch.js";
import { hasWideGemm, MAX_PANEL_TOKENS, SLAB_COLUMNS } from "./wide-gemm-shape.js";

export const FLOAT_BYTES = 4;
export const HALF_BYTES = 2;
const PART_ALIGNMENT = 256;
/**
 * Share of the device's memory for partial results of attention; with longer contexts a step's tokens are split into
 * turns.
 */
const PARTIAL_SHARE = 1 / 64;
/** Sequences that decode in one attention launch; larger batches take several. */
const MAX_SPLIT_TOKENS = 256;
/** GEMM blocks for each multiprocessor that share a matrix's rows. */
export const GEMM_BLOCKS_PER_MULTIPROCESSOR = 4;
/** Sums of one block of matmul/gemm.hip, at most: 128 rows by 128 tokens. */
const TILE_BLOCK_FLOATS = 128 * 128;

export interface AttentionRegion {
  readonly values: MemoryPlace;
  readonly weights: MemoryPlace;
  /** Tokens that there is room for at a time. */
  readonly tokens: number;
  readonly splits: number;
}

export interface Regions {
  readonly slots: readonly MemoryPlace[];
  /** A matmul's input, made right before it. */
  readonly input: MemoryPlace;
  /** A matmul's input, left there by the group before it. */
  readonly handedInput: MemoryPlace;
  /** Of a row that its writer leaves ready for a norm (lane-gemv-shape.ts): the sums of squares of its blocks of 32. */
  readonly squares: MemoryPlace;
  readonly gate: MemoryPlace;
  readonly up: MemoryPlace;
  readonly attention: AttentionRegion;
  readonly chunks: MemoryPlace;
  readonly results: MemoryPlace;
  /** Rows of tables that stay in host memory. */
  readonly hostRows: readonly HostRowsPlace[];
  readonly tilePartial: MemoryPlace;
  /** Zero before and after every launch. */
  readonly tileArrivals: MemoryPlace;
  readonly tileArrivalBytes: number;
  /** Most splits × blocks of one GEMM. */
  readonly tileBlocks: number;
  /** The slots of a step sorted by expert. */
  readonly expertOrder: ExpertOrderRegion;
  readonly sharedExpert: SharedExpertRegion;
  /** Memory that only the BLAS library needs, allocated when it is first used. */
  readonly blas: BlasRegion;
  readonly sizeBytes: number;
}

export interface BlasRegion {
  readonly unpacked: MemoryPlace;
  readonly gate: MemoryPlace;
  readonly up: MemoryPlace;
  readonly sizeBytes: number;
}

export function capacityOf({ limits }: Pick<GpuLoweringOptions, "limits">, rows: RowSymbol): number {
  return rows === "tokens" ? limits.maxTokens : limits.maxOutputs;
}

export function planRegions(options: GpuLoweringOptions): Regions {
  const { fused, device, limits, deterministic } = options;
  const { program, groups, memory } = fused;
  const scratch = new Scratch();
  const slots = memory.slots.map(({ rows, width }) => scratch.reserve(capacityOf(options, rows) * width * FLOAT_BYTES));
  const inputBytes = groups.flatMap(matmulsOf).map((matmul) => preparedBytes(options, matmul));
  const slotBytes = groups.flatMap(({ parts }) => parts.flatMap((part) => slotInputBytes(options, part)));
  const networkBytes = fused.experts.map((network) => networkInput(options, network, ORIGIN).sizeBytes);
  const mostInput = Math.max(0, ...inputBytes, ...slotBytes, ...networkBytes);
  const pairBytes = groups.map((group) => gatedBytes(options, group)).reduce((most, bytes) => Math.max(most, bytes), 0);
  const attention = attentionRegion(options, scratch);
  const tiled = !deterministic && limits.maxTokens > MAX_SMALL_BATCH;
  const tileBlocks = tiled ? device.multiprocessors * GEMM_BLOCKS_PER_MULTIPROCESSOR : 0;
  const tileArrivalBytes = tileBlocks * FLOAT_BYTES;
  return {
    slots,
    input: scratch.reserve(mostInput),
    handedInput: scratch.reserve(mostInput),
    squares: scratch.reserve(Math.max(0, ...program.values.map(({ width }) => Math.ceil(width / 32))) * FLOAT_BYTES),
    gate: scratch.reserve(pairBytes),
    up: scratch.reserve(pairBytes),
    attention,
    chunks: scratch.reserve(program.logits === undefined ? 0 : chunkBytes(program.vocabularySize, limits.maxOutputs)),
    results: scratch.reserve(maxResultWords(limits.maxOutputs) * FLOAT_BYTES),
    tilePartial: scratch.reserve(tileBlocks * TILE_BLOCK_FLOATS * FLOAT_BYTES),
    tileArrivals: scratch.reserve(tileArrivalBytes),
    tileArrivalBytes,
    tileBlocks,
    hostRows: planHostRows(options, scratch),
    expertOrder: reserveExpertOrder(scratch, tiled ? routedMatmuls(options) : [], limits),
    sharedExpert: reserveSharedExpert(scratch, fused.experts, limits),
    blas: blasRegion(options),
    sizeBytes: scratch.sizeBytes,
  };
}

export function matmulsOf(group: Group): readonly MatmulOperation[] {
  switch (group.form) {
    case "matmuls":
      return group.matmuls;
    case "gated-matmul":
      return [group.gate, group.up];
    case "matmul-add":
      return [group.matmul];
    case "single":
      return group.operation.kind === "matmul" ? [group.operation] : [];
    case "norm-add":
    case "rope-store":
    case "head-store":
    case "latent-store":
    case "latent-query":
    case "rope-concat":
    case "gated-norm":
      return [];
    default:
      return group satisfies never;
  }
}

/** Only matmuls over all tokens use the BLAS library: output rows are too few. */
function blasRegion(options: GpuLoweringOptions): BlasRegion {
  const { groups, program } = options.fused;
  const matmuls = groups.flatMap(matmulsOf).filter(({ input }) => program.values[input].rows === "tokens");
  const widest = matmuls.reduce((most, { out }) => Math.max(most, program.values[out].width), 0);
  const scratch = new Scratch("blas");
  return {
    unpacked: scratch.reserve(largestUnpackedBytes(matmuls.map(({ weight }) => options.weights[weight]))),
    gate: scratch.reserve(widest * options.limits.maxTokens * FLOAT_BYTES),
    up: scratch.reserve(widest * options.limits.maxTokens * FLOAT_BYTES),
    sizeBytes: scratch.sizeBytes,
  };
}

/** Bytes of a matmul's input in its largest form. */
function preparedBytes(options: GpuLoweringOptions, { input, weight }: MatmulOperation): number {
  const { width, rows } = options.fused.program.values[input];
  const capacity = capacityOf(options, rows);
  if (isPlain(options.weights[weight])) return capacity * width * FLOAT_BYTES + PART_ALIGNMENT + capacity * FLOAT_BYTES;
  const halves = hasWideGemm(options) ? panelPlace : halfPlace;
  return Math.max(quantizedPlace(ORIGIN, capacity, width).sizeBytes, halves(ORIGIN, capacity, width).sizeBytes);
}

/** Bytes of the inputs of a grouped matmul in each of their forms. */
function slotInputBytes(options: GpuLoweringOptions, operation: Operation): readonly number[] {
  if (operation.kind !== "grouped-matmul") return [];
  const form = isPlain(options.weights[operation.weight]) ? "split" : "wide";
  const slotBytes = slotHalves(options, operation, ORIGIN, form, 1).sizeBytes;
  if (form === "split") return [slotBytes];
  const { width, rows } = options.fused.program.values[operation.input];
  const halfBytes = halfPlace(ORIGIN, capacityOf(options, rows), width).sizeBytes;
  return [groupedInput(options, operation, ORIGIN).place.sizeBytes, halfBytes, slotBytes];
}

/** The grouped matmuls of a program that a router chooses matrices for. */
function routedMatmuls({
  fused,
  weights,
}: GpuLoweringOptions): readonly { readonly operation: RoutedMatmul; readonly weight: TensorDescriptor }[] {
  return fused.program.operations.flatMap((operation) =>
    operation.kind === "grouped-matmul" && operation.routing !== undefined
      ? [{ operation: { ...operation, routing: operation.routing }, weight: weights[operation.weight] }]
      : [],
  );
}

/** Bytes of gate and up as values of their own, if one launch cannot compute both. */
function gatedBytes(options: GpuLoweringOptions, group: Group): number {
  if (group.form !== "gated-matmul") return 0;
  const { width, rows } = options.fused.program.values[group.activation.out];
  const [gate, up] = [options.weights[group.gate.weight], options.weights[group.up.weight]];
  const apart =
    isPlain(gate) !== isPlain(up) ||
    keepsPrecision(gate, options.fused.program.kv.states !== undefined) ||
    (!options.deterministic && gate.layout.id !== up.layout.id) ||
    group.gate.softCap !== group.up.softCap;
  return apart ? capacityOf(options, rows) * width * FLOAT_BYTES : 0;
}

function attentionRegion(
  { fused: { program }, limits, device }: GpuLoweringOptions,
  scratch: Scratch,
): AttentionRegion {
  const operations = program.operations.filter(
    (operation): operation is AttentionOperation => operation.kind === "attention",
  );
  const splits = Math.max(1, splitsOf(limits.contextTokens));
  const perToken = (operation: AttentionOperation): number => {
    const { values, weights } = partialFloats(1, splits, operation);
    return (values + weights) * FLOAT_BYTES;
  };
  const tokenBytes = operations.reduce((most, operation) => Math.max(most, perToken(operation)), 1);
  const affordable = Math.floor((device.totalBytes * PARTIAL_SHARE) / tokenBytes);
  const tokens = Math.min(limits.maxTokens, MAX_SPLIT_TOKENS, Math.max(MAX_SMALL_BATCH, affordable));
  const reserve = (part: "values" | "weights"): MemoryPlace =>
    scratch.reserve(
      operations.reduce((most, operation) => Math.max(most, partialFloats(tokens, splits, operation)[part]), 0) *
        FLOAT_BYTES,
    );
  return { values: reserve("values"), weights: reserve("weights"), tokens, splits };
}

const ORIGIN: MemoryPlace = { space: "scratch", byteOffset: 0 };

export interface QuantizedPlace {
  readonly values: MemoryPlace;
  readonly scales: MemoryPlace;
  readonly sums: MemoryPlace;
  readonly sizeBytes: number;
}

/** Places of quantized rows (kernels/rows/prepared-row.h) for up to `rows` rows. */
export function quantizedPlace(place: MemoryPlace, rows: number, width: number): QuantizedPlace {
  const scales = roundUp(rows * width, PART_ALIGNMENT);
  const sums = scales + roundUp(rows * Math.ceil(width / 32) * FLOAT_BYTES, PART_ALIGNMENT);
  return {
    values: place,
    scales: shifted(place, scales),
    sums: shifted(place, sums),
    sizeBytes: sums + rows * Math.ceil(width / 16) * FLOAT_BYTES,
  };
}

export interface HalfPlace {
  readonly halves: MemoryPlace;
  readonly rowScales: MemoryPlace;
  /** In halves, from one row to the next. */
  readonly stride: number;
  readonly sizeBytes: number;
}

export function halfPlace(place: MemoryPlace, rows: number, width: number): HalfPlace {
  const scales = roundUp(rows * width * HALF_BYTES, PART_ALIGNMENT);
  return { halves: place, rowScales: shifted(place, scales), stride: width, sizeBytes: scales + rows * FLOAT_BYTES };
}

/** The same in the order of kernels/matmul/wide-gemm.hip: whole tiles of tokens, and rows of whole slabs. */
export function panelPlace(place: MemoryPlace, rows: number, width: number): HalfPlace {
  return halfPlace(place, roundUp(rows, MAX_PANEL_TOKENS), roundUp(width, SLAB_COLUMNS));
}

/** The quantized inputs of a grouped matmul. */
export interface GroupedInput {
  /** Rows of each token: one for each slot, or one for all. */
  readonly slots: number;
  readonly width: number;
  readonly place: QuantizedPlace;
}

/** Where the quantized inputs of a grouped matmul lie in a region. */
export function groupedInput(
  options: GpuLoweringOptions,
  { input, weight, slots: all, inputStride }: GroupedMatmulOperation,
  region: MemoryPlace,
): GroupedInput {
  const slots = inputStride === 0 ? 1 : all;
  const [width] = options.weights[weight].shape;
  const rows = capacityOf(options, options.fused.program.values[input].rows) * slots;
  return { slots, width, place: quantizedPlace(region, rows, width) };
}

/** Where the inputs of the last matmul of a network of experts lie in a region: those of its slots and shared slots. */
export function networkInput(options: GpuLoweringOptions, network: ExpertNetwork, region: MemoryPlace): QuantizedPlace {
  const { weight, input, slots } = network.down;
  const rows = capacityOf(options, options.fused.program.values[input].rows);
  const shared = Math.max(sharedSlots(options, network), network.shared === undefined ? 0 : 1);
  return quantizedPlace(region, rows * (slots + shared), options.weights[weight].shape[0]);
}

/** The columns of each slot as f16 rows of their own (kernels/rows/slot-rows.hip). */
export interface SlotHalves {
  readonly halves: MemoryPlace;
  /** Of split rows: what `halves` lack. */
  readonly lowHalves: MemoryPlace;
  readonly rowScales: MemoryPlace;
  /** Rows of each token: one for each slot, or one for all. */
  readonly slots: number;
  readonly width: number;
  /** In halves, from one row to the next. */
  readonly stride: number;
  readonly sizeBytes: number;
}

/**
 * Where the inputs of a grouped matmul lie in a region: each slot's as f16, as split rows, or in the order of wide products.
 * A shared expert's input is one more slot.
 */
export function slotHalves(
  options: GpuLoweringOptions,
  { input, weight, slots: all, inputStride }: GroupedMatmulOperation,
  region: MemoryPlace,
  form: "half" | "split" | "wide",
  sharedExperts = 0,
): SlotHalves {
  const slots = inputStride === 0 ? 1 : all + sharedExperts;
  const [width] = options.weights[weight].shape;
  const stride = form === "wide" ? roundUp(width, SLAB_COLUMNS) : width;
  const rows = capacityOf(options, options.fused.program.values[input].rows) * slots;
  const partBytes = roundUp(rows * stride * HALF_BYTES, PART_ALIGNMENT);
  const lowBytes = form === "split" ? partBytes : 0;
  return {
    halves: region,
    lowHalves: shifted(region, lowBytes),
    rowScales: shifted(region, partBytes + lowBytes),
    slots,
    width,
    stride,
    sizeBytes: partBytes + lowBytes + rows * FLOAT_BYTES,
  };
}
