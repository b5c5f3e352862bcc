// Launches of latent attention besides attention itself: keys from their compressed form to the cache, and what becomes of
// queries before and around the matmul of one matrix a head.

import type { LatentQueryGroup, LatentStoreGroup } from "../../../graph/latent-store.js";
import { kvLayers } from "../../../graph/program.js";
import type { Defines } from "../kernels/kernel-source.js";
import type { LoweringContext } from "./context.js";
import { slotInput } from "./grouped-gemm.js";
import { lowerGrouped } from "./grouped-matmul.js";
import type { SlotInput } from "./inputs.js";
import type { LaunchSpec } from "./launch.js";
import type { MatmulLowering } from "./matmul-groups.js";
import { cacheDefines, layerArguments, rotationArguments, rotationDefines } from "./rope.js";

const LATENT_THREADS = 128;

/** What both kernels of attention/latent.hip are compiled with and given for the key. */
function keyOf(
  context: LoweringContext,
  { norm, rope, concat, store }: LatentStoreGroup,
): { readonly defines: Defines; readonly arguments: LaunchSpec["arguments"] } {
  const [latent, rotated] = [context.matrix(norm.input), context.matrix(rope.input)];
  const { keyWidth } = kvLayers(context.options.fused.program.kv)[store.layer];
  const { VALUE_WIDTH: _, ...defines } = cacheDefines(context, { keyWidth, valueWidth: 0 });
  if (keyWidth !== concat.leftWidth + concat.rightWidth) throw new TypeError("a latent key of another width");
  return {
    defines: {
      ...defines,
      ...rotationDefines({ ...rope, firstColumn: 0 }),
      NORM_TYPE: norm.weight === undefined ? -1 : context.typeOf(norm.weight),
    },
    arguments: {
      ...rotationArguments(context, rope),
      ...layerArguments(context, store.layer),
      cells: context.groupField("cells", store.layer),
      norm: context.weight(norm.weight),
      latent: latent.place,
      rotated: rotated.place,
      latent_stride: latent.stride,
      rotated_stride: rotated.stride,
      epsilon: norm.epsilon,
    },
  };
}

export function lowerLatentStore(context: LoweringContext, group: LatentStoreGroup): LaunchSpec {
  const { defines, arguments: key } = keyOf(context, group);
  const waves = LATENT_THREADS / context.options.device.waveSize;
  return {
    label: "latent key and store",
    file: "attention/latent",
    variants: [{ kernel: "latent_store", defines }],
    arguments: key,
    grid: (size) => [Math.ceil(size.tokens / waves), 1, 1],
  };
}

/** The key, the rotated columns of queries and the matmul's input in one launch, then the matmul to where it belongs. */
export function lowerLatentQuery(
  context: LoweringContext,
  matmuls: MatmulLowering,
  group: LatentQueryGroup,
  groupIndex: number,
): readonly LaunchSpec[] {
  const { matmul, query } = group;
  const { leftWidth, rightWidth, out } = query.concat;
  const slots = slotInput(context, matmul, matmuls.size);
  const place = { ...context.matrix(out), slotStride: leftWidth + rightWidth };
  return [
    queryLaunch(context, group, slots),
    ...lowerGrouped(context, matmul, { groupIndex, matmuls, slots }, () => place),
  ];
}

function queryLaunch(
  context: LoweringContext,
  { key, matmul, query: { rope, concat } }: LatentQueryGroup,
  slots: SlotInput | undefined,
): LaunchSpec {
  const { defines, arguments: given } = keyOf(context, key);
  const [queries, out] = [context.matrix(rope.input), context.matrix(concat.out)];
  const waves = LATENT_THREADS / context.options.device.waveSize;
  return {
    label: "latent key and queries",
    file: "attention/latent",
    variants: halvesDefines(context.options.weights[matmul.weight].shape[0], slots).map((halves) => ({
      kernel: "latent_query",
      defines: { ...defines, ...halves },
    })),
    choose: (size) => (slots?.isWide(size) === true ? 1 : 0),
    arguments: {
      ...given,
      query: queries.place,
      out: out.place,
      halves: slots?.halves ?? 0,
      row_scales: slots?.rowScales ?? 0,
      query_stride: queries.stride,
      out_stride: out.stride,
      heads: concat.heads,
      head_stride: concat.rightStride,
      head_offset: concat.rightOffset,
    },
    grid: (size) => [Math.ceil((1 + concat.heads) / waves), size.tokens, 1],
  };
}

/** No halves, or those of the matrix units, and then those of wide products. */
function halvesDefines(width: number, slots: SlotInput | undefined): readonly Defines[] {
  if (slots === undefined) return [{}];
  const halves = { HALVES: 1, UNROTATED: width, HALF_STRIDE: slots.stride };
  if (!slots.canBeWide) return [halves];
  return [halves, { ...halves, HALVES: 2, ...(slots.groupChunks === 1 ? {} : { GROUP_CHUNKS: slots.groupChunks }) }];
}
