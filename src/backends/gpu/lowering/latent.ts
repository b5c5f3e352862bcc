// Launches of latent attention besides attention itself: keys from their compressed form to the cache.

import type { LatentStoreGroup } from "../../../graph/latent-store.js";
import { kvLayers } from "../../../graph/program.js";
import type { LoweringContext } from "./context.js";
import type { LaunchSpec } from "./launch.js";
import { cacheDefines, layerArguments, rotationArguments, rotationDefines } from "./rope.js";

const LATENT_THREADS = 128;

export function lowerLatentStore(
  context: LoweringContext,
  { norm, rope, concat, store }: LatentStoreGroup,
): LaunchSpec {
  const [latent, rotated] = [context.matrix(norm.input), context.matrix(rope.input)];
  const { keyWidth } = kvLayers(context.options.fused.program.kv)[store.layer];
  const { VALUE_WIDTH: _, ...defines } = cacheDefines(context, { keyWidth, valueWidth: 0 });
  const waves = LATENT_THREADS / context.options.device.waveSize;
  if (keyWidth !== concat.leftWidth + concat.rightWidth) throw new TypeError("a latent key of another width");
  return {
    label: "latent key and store",
    file: "attention/latent",
    variants: [
      {
        kernel: "latent_store",
        defines: {
          ...defines,
          ...rotationDefines({ ...rope, firstColumn: 0 }),
          NORM_TYPE: norm.weight === undefined ? -1 : context.typeOf(norm.weight),
        },
      },
    ],
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
    grid: (size) => [Math.ceil(size.tokens / waves), 1, 1],
  };
}
