// Device memory that a program's steps need, and whether a model fits before any of it is loaded.

import type { StepSize } from "../../../graph/memory-plan.js";
import type { LazyTensor } from "../../../tensor/lazy-tensor.js";
import type { TensorDescriptor } from "../../../tensor/descriptor.js";
import type { KvCacheOptions, KvCacheType } from "../../contract.js";
import { blockCounts } from "../../cache-size.js";
import { refuseUnfit } from "../../memory-fit.js";
import type { LoweringContext } from "../lowering/context.js";
import { kvLayout, supportsGpuKvCache } from "../memory/kv-layout.js";
import { batchClass } from "../lowering/matmul-selection.js";
import type { GpuRuntime } from "../memory/runtime.js";
import { layoutOf } from "../memory/upload.js";
import { stepMemorySizes } from "./step-memory.js";

/** Scratch memory of the largest step; only the BLAS library's memory is allocated later. */
export function scratchBytesFor({ regions, step }: LoweringContext, { tokens }: StepSize, blas: boolean): number {
  return (
    regions.sizeBytes + step.usedBytes(0, 0) + (blas && batchClass(tokens) === "huge" ? regions.blas.sizeBytes : 0)
  );
}

/** Allocates device memory for all weights, and the memory of steps, before the first step needs it. */
export function reserveProgram(runtime: GpuRuntime, context: LoweringContext, weights: readonly LazyTensor[]): void {
  const { step, results, rows } = stepMemorySizes(context);
  const weightBytes = unloadedWeights(weights).map((descriptor) => layoutOf(descriptor).sizeBytes);
  const scratch = [runtime.unstagedBytes, context.regions.sizeBytes, context.constants.byteLength, step];
  runtime.reserve([...weightBytes, ...scratch], [step, results, rows]);
}

function unloadedWeights(weights: readonly LazyTensor[]): readonly TensorDescriptor[] {
  return weights
    .filter(({ resident, descriptor: { onHost } }) => resident === undefined && onHost !== true)
    .map(({ descriptor }) => descriptor);
}

/**
 * Throws before anything is read if the model does not fit, with settings that would. The KV cache, with these numbers
 * of blocks of each group, is already allocated.
 */
export function refuseUnfitProgram(
  runtime: GpuRuntime,
  context: LoweringContext,
  weights: readonly LazyTensor[],
  cacheBlocks: readonly number[],
): void {
  const { fused, limits } = context.options;
  if (limits.ignoreMemoryCheck === true) return;
  const { blockTokens, kvCacheType } = limits;
  const unloaded = unloadedWeights(weights);
  const cacheOf = (tokens: number, type: KvCacheType): KvCacheOptions => ({
    ...fused.program.kv,
    type,
    blockTokens,
    // A sliding window has no more blocks in a longer context.
    ...blockCounts(cacheBlocks.map((blocks) => Math.min(blocks, Math.ceil(tokens / blockTokens)))),
  });
  const cacheTokens = Math.max(0, ...cacheBlocks) * blockTokens;
  const kvCacheBytes = (tokens: number, type: KvCacheType): number => kvLayout(cacheOf(tokens, type)).sizeBytes;
  refuseUnfit({
    place: runtime.place,
    availableBytes: runtime.memory.availableBytes + kvCacheBytes(cacheTokens, kvCacheType),
    weightBytes: unloaded.reduce((total, descriptor) => total + layoutOf(descriptor).sizeBytes, 0),
    weightElements: unloaded.reduce((total, { elements }) => total + elements, 0),
    scratchBytes: context.regions.sizeBytes + (unloaded.length > 0 ? runtime.unstagedBytes : 0),
    tokens: cacheTokens,
    blockTokens,
    kvCacheType,
    kvCacheBytes,
    supportsKvCacheType: (type) => supportsGpuKvCache(cacheOf(blockTokens, type)) === true,
  });
}
