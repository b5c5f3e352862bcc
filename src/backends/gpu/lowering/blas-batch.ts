// From how many tokens on a step's matmuls go to the BLAS library: unpacking every weight to memory takes the same time for
// any number of tokens, and only large batches win it back.

import type { GpuLoweringOptions } from "./context.js";
import { MIN_BLAS_BATCH } from "./matmul-selection.js";
import { matmulsOf } from "./regions.js";
import { takesWideGemm } from "./wide-gemm-shape.js";

/** The same where the wide products compute every matmul without unpacking it first. */
const MIN_WIDE_BLAS_BATCH = 1024;

/** The fewest tokens of a step whose matmuls the BLAS library computes. */
export function leastBlasBatch(options: GpuLoweringOptions): number {
  const { groups, program } = options.fused;
  const matmuls = groups.flatMap(matmulsOf).filter(({ input }) => program.values[input].rows === "tokens");
  const areWide = matmuls.length > 0 && matmuls.every(({ weight }) => takesWideGemm(options, options.weights[weight]));
  return areWide ? MIN_WIDE_BLAS_BATCH : MIN_BLAS_BATCH;
}
