// Scratch memory for the rows of tables that stay in host memory.

import type { WeightId } from "../../../graph/operation.js";
import { layoutOf } from "../memory/upload.js";
import type { GpuLoweringOptions } from "./context.js";
import type { MemoryPlace } from "./launch.js";
import type { Scratch } from "./scratch.js";

/** Where the rows of a step's tokens lie, in the order of the tokens. */
export interface HostRowsPlace {
  readonly weight: WeightId;
  /** As the file has them. */
  readonly copied: MemoryPlace;
  /** As kernels read them: the same if they are not repacked. */
  readonly rows: MemoryPlace;
  /** Of one copied row. */
  readonly rowBytes: number;
}

/** Sets memory aside for the rows of every table that stays on the host. */
export function planHostRows({ weights, limits }: GpuLoweringOptions, scratch: Scratch): readonly HostRowsPlace[] {
  return weights.flatMap((descriptor, weight) => {
    if (descriptor.onHost !== true) return [];
    const { repacked, fileRowBytes, rowBytes } = layoutOf(descriptor);
    const copied = scratch.reserve(limits.maxTokens * fileRowBytes);
    const rows = repacked ? scratch.reserve(limits.maxTokens * rowBytes) : copied;
    return [{ weight, copied, rows, rowBytes: fileRowBytes }];
  });
}
