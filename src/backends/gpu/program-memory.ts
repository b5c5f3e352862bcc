// What a program's steps take of the device's memory, and whether a model fits before any of it is loaded.

import { BackendError } from "../../errors.js";
import type { StepSize } from "../../graph/memory-plan.js";
import type { LazyTensor } from "../../tensor/lazy-tensor.js";
import type { LoweringContext } from "./lowering/context.js";
import { kvLayout } from "./kv-layout.js";
import { rowsClass } from "./matrix-choice.js";
import type { GpuRuntime } from "./runtime.js";
import { layoutOf } from "./upload.js";

/** Everything is set aside for the largest step; only what the library wants comes later. */
export function scratchBytesFor({ regions, step }: LoweringContext, { tokens }: StepSize, library: boolean): number {
  return regions.sizeBytes + step.usedBytes(0, 0) + (library && rowsClass(tokens) === "large" ? regions.library.sizeBytes : 0);
}

/** Told before anything is read, with the longest context that would do. `cacheBytes` are taken already. */
export function refuseUnfit(runtime: GpuRuntime, context: LoweringContext, weights: readonly LazyTensor[], cacheBytes: number): void {
  const unloaded = weights.filter(({ resident }) => resident === undefined);
  const weightBytes = unloaded.reduce((total, { descriptor }) => total + layoutOf(descriptor).sizeBytes, 0);
  const scratchBytes = context.regions.sizeBytes;
  const neededBytes = weightBytes + scratchBytes + (unloaded.length > 0 ? runtime.unstagedBytes : 0);
  const { availableBytes } = runtime.memory;
  if (neededBytes <= availableBytes) return;
  const fittingTokens = fittingContext(context, availableBytes + cacheBytes - neededBytes);
  const advice = fittingTokens > 0 ? `a context of at most ${fittingTokens} tokens would fit` : "take a smaller quantisation or another device";
  throw new BackendError(
    "BACKEND_MEMORY",
    `[${runtime.place}] ${neededBytes} bytes are needed (weights ${weightBytes}, scratch ${scratchBytes}) beside a KV cache of ${cacheBytes} ` +
      `and ${availableBytes} are free; ${advice}`,
    { details: { neededBytes, weightBytes, scratchBytes, kvCacheBytes: cacheBytes, availableBytes, fittingTokens } },
  );
}

/** Positions whose keys and values fit in so many bytes. */
function fittingContext({ facts: { fused, limits } }: LoweringContext, spareBytes: number): number {
  const { blockTokens, kvCacheType: type } = limits;
  const blockBytes = kvLayout({ ...fused.program.kv, type, blockTokens, blocks: 1 }).sizeBytes;
  return blockBytes === 0 ? 0 : Math.max(0, Math.floor(spareBytes / blockBytes)) * blockTokens;
}
