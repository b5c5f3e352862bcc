// Launches of matmul/sorted-gemv.hip: the matmuls of experts in medium batches with few slots an expert, as dot products over
// slots that are sorted by expert. Between gate, up and the last matmul rows lie in sorted order.

import type { Activation, GroupedMatmulOperation } from "../../../graph/operation.js";
import type { Defines } from "../kernels/kernel-source.js";
import { activationDefines } from "./attributes.js";
import { type LoweringContext, rowsOf } from "./context.js";
import { matrixCount, maxTiles, type RoutedMatmul, SORTED_TILE_TOKENS } from "./expert-tiles.js";
import { stagedBytes } from "./gemv-shape.js";
import type { GroupedGemm, SharedMatrices } from "./grouped-gemm.js";
import type { LaunchSize, LaunchSpec } from "./launch.js";
import { floatResult, slotResults } from "./launch-results.js";
import { FLOAT_BYTES, type QuantizedPlace } from "./regions.js";
import { shifted } from "./scratch.js";
import {
  BLOCK_ROWS,
  isSortedGemvShape,
  type SortedGemvParameters,
  type SortedGemvRequest,
  sortedGemvShape,
  usualSortedGemvParameters,
} from "./sorted-gemv-shape.js";

const FILE = "matmul/sorted-gemv";
/** Every device gives a block this much dynamic shared memory unasked. */
const STAGED_LIMIT_BYTES = 46 << 10;

/** One matmul, or gate and up with where their quantized results go, and the rows that it multiplies. */
export interface SortedGemv {
  readonly matmuls: readonly [RoutedMatmul] | readonly [RoutedMatmul, GroupedMatmulOperation];
  readonly input: QuantizedPlace;
  readonly gated?: { readonly activation: Activation; readonly quantized: QuantizedPlace };
  readonly out: GroupedGemm["out"];
  readonly shared?: SharedMatrices | undefined;
}

/** Whether a block has room for the inputs of a tile of a matmul with rows of this width. */
export function fitsSortedGemv(width: number): boolean {
  return width % BLOCK_ROWS === 0 && stagedBytes(SORTED_TILE_TOKENS, width) <= STAGED_LIMIT_BYTES;
}

export function sortedGemvLaunch(
  context: LoweringContext,
  wanted: SortedGemv,
  isNeeded: (size: LaunchSize) => boolean,
): LaunchSpec {
  const { matmuls, input, gated, out, shared } = wanted;
  const [first, second = first] = matmuls;
  const { weights, device } = context.options;
  const { expertOrder } = context.regions;
  const [width] = weights[first.weight].shape;
  const routing = context.matrix(first.routing);
  const experts = matrixCount(first, weights[first.weight]);
  const bias = first.bias ?? second.bias;
  const types = [first, second].map(({ weight }) => context.typeOf(weight));
  const request: SortedGemvRequest = { width, gated: gated !== undefined, types, waveSize: device.waveSize };
  const definesFor = (parameters: SortedGemvParameters): Defines => ({
    TYPE0: types[0],
    ...(gated === undefined ? {} : { GATED: 1, TYPE1: types[1], ...activationDefines(gated.activation) }),
    USED: first.slots,
    TOKENS: SORTED_TILE_TOKENS,
    ...(shared === undefined ? {} : { SHARED_EXPERT: 1 }),
    ...(first.weighted ? { WEIGHED: 1 } : {}),
    BIAS_TYPE: bias === undefined ? 0 : context.typeOf(bias),
    ...sortedGemvShape(request, parameters).defines,
  });
  const tuned = context.choices.variant<SortedGemvParameters>({
    family: "sorted-gemv",
    key: `${gated === undefined ? "" : "gated "}${shared === undefined ? "" : "shared "}${types.join(",")} ${first.slots}of${experts}x${first.outputs}x${width}`,
    usual: usualSortedGemvParameters(request),
    isValid: (parameters) => isSortedGemvShape(request, parameters),
    moduleOf: (parameters) => ({ file: FILE, defines: definesFor(parameters) }),
  });
  const tilesOf = (tokens: number): number =>
    maxTiles(tokens, first.slots, experts, SORTED_TILE_TOKENS) +
    (shared === undefined ? 0 : Math.ceil(tokens / SORTED_TILE_TOKENS));
  return {
    label: gated === undefined ? "sorted gemv" : "gate and up, sorted gemv",
    file: FILE,
    variants: [
      {
        kernel: "sorted_gemv",
        defines: definesFor(tuned.parameters),
        sharedBytes: stagedBytes(SORTED_TILE_TOKENS, width),
        tuned,
      },
    ],
    arguments: {
      values: input.values,
      scales: input.scales,
      sums: input.sums,
      row_count: context.rowCount(out.rows),
      slots: expertOrder.slots,
      tiles: expertOrder.tiles,
      tile_count: expertOrder.tileCount,
      slot_weights: first.weighted ? shifted(routing.place, first.slots * FLOAT_BYTES) : 0,
      weights_stride: routing.stride,
      ...Object.fromEntries(
        [first, second].flatMap(({ weight, bias: added, scale, matrixRows, firstOutput }, index) => [
          [`weights${index}`, context.weight(weight)],
          [`bias${index}`, context.weight(added)],
          [`factor${index}`, context.weight(scale)],
          [`matrix_rows${index}`, matrixRows],
          [`first${index}`, firstOutput],
        ]),
      ),
      shared0: context.weight(shared?.weights[0]),
      shared1: context.weight(shared?.weights.at(-1)),
      out: out.place,
      shared_out: shared?.out.place ?? 0,
      quantized_values: gated?.quantized.values ?? 0,
      quantized_scales: gated?.quantized.scales ?? 0,
      quantized_sums: gated?.quantized.sums ?? 0,
      width,
      rows: first.outputs,
      out_stride: out.stride,
      shared_out_stride: shared?.out.stride ?? 0,
      passes: sortedGemvShape(request, tuned.parameters).passes,
    },
    recut: (choices) => sortedGemvLaunch(context.withChoices(choices), wanted, isNeeded),
    results: [
      ...slotResults(out, first.outputs, first.slots, gated?.quantized, shared === undefined ? 0 : 1),
      ...(shared === undefined || gated !== undefined ? [] : [floatResult(shared.out, first.outputs)]),
    ],
    grid: (size) =>
      isNeeded(size) ? [Math.ceil(first.outputs / BLOCK_ROWS), tilesOf(rowsOf(size, out.rows)), 1] : [0, 0, 0],
  };
}
