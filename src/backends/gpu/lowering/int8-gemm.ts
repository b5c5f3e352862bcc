// Which matmuls take the matrix units' products of bytes (matmul/int8-gemm.hip): on cards where these are twice as quick as
// products of halves, and with weights for which that outweighs scaling their sums, block by block, for every tile of tokens.
// docs/amd.md has the counts that this table follows.

import type { TensorDescriptor } from "../../../tensor/descriptor.js";
import type { GpuLoweringOptions } from "./context.js";
import type { KernelChoices } from "./kernel-choices.js";
import type { BatchClass } from "./matmul-selection.js";

/** The kernel's file, as records of wrong modules name it. */
const FILE = "matmul/int8-gemm";

const EVERY: readonly BatchClass[] = ["medium", "large", "huge"];
const FEW: readonly BatchClass[] = ["medium"];
/** Batches by type. The minimums of Q4_K and the scales of Q6_K, one for 16 columns, cost more for each tile of tokens. */
const RDNA4: Readonly<Record<string, readonly BatchClass[]>> = { Q4_0: EVERY, Q8_0: EVERY, Q4_K: FEW, Q6_K: FEW };
/** Of more tokens, scaling a product's sums takes the vector unit longer than products of halves take the matrix unit. */
const CDNA: Readonly<Record<string, readonly BatchClass[]>> = { Q4_0: FEW, Q8_0: FEW, Q4_K: FEW };
const TYPES: Readonly<Record<string, Readonly<Record<string, readonly BatchClass[]>>>> = {
  gfx1200: RDNA4,
  gfx1201: RDNA4,
  gfx942: CDNA,
  gfx950: CDNA,
};

/** Columns that a wave multiplies at a time: rows have a multiple of them. */
const TURN_COLUMNS = 128;

/** Whether a matmul with this weight takes products of bytes in batches of this class. */
export function takesInt8Gemm(
  { device: { architecture = "" } }: Pick<GpuLoweringOptions, "device">,
  { layout, shape }: TensorDescriptor,
  batch: BatchClass,
  choices: KernelChoices,
): boolean {
  // Behind the name of an architecture there may be features.
  const [name] = architecture.split(":", 1);
  const types = Object.hasOwn(TYPES, name) ? TYPES[name] : {};
  const batches = Object.hasOwn(types, layout.name) ? types[layout.name] : [];
  // Products of halves are the next variant.
  return batches.includes(batch) && shape[0] % TURN_COLUMNS === 0 && !choices.isGivenUp(FILE);
}
