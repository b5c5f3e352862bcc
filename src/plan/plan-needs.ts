// What a plan needs of its backend: the options of its KV cache, the memory of its weights, and whether both are possible.

import { blockCounts } from "../backends/cache-size.js";
import type { Backend, KvCacheOptions } from "../backends/contract.js";
import { BackendError } from "../errors.js";
import { kvGroups } from "../graph/cache-groups.js";
import type { Program } from "../graph/program.js";
import type { GgufLoader } from "../loader/gguf-loader.js";
import { overBudget } from "../loader/tensor-upload.js";
import type { TensorDescriptor } from "../tensor/descriptor.js";
import type { PlanConfig } from "./plan-config.js";

/** The options of a KV cache for a program. */
export function kvCacheOptions(
  { kv }: Program,
  { blockTokens, kvCacheType }: Required<PlanConfig>,
  blocks: readonly number[],
  stateSlots: number,
): KvCacheOptions {
  return {
    ...kv,
    ...blockCounts(blocks),
    blockTokens,
    type: kvCacheType,
    ...(kv.states === undefined ? {} : { stateSlots }),
  };
}

/** Bytes of these tensors on the device. */
export function residentBytes(descriptors: readonly TensorDescriptor[], backend: Backend, loader: GgufLoader): number {
  return descriptors.reduce(
    (total, descriptor) => total + backend.residentBytes(descriptor, loader.isMapped(descriptor.name)),
    0,
  );
}

/** Throws if a plan of this program cannot run; checked when the plan is built, not in the middle of the first request. */
export function refuseUnfitPlan(
  program: Program,
  config: Required<PlanConfig>,
  loader: GgufLoader,
  backend: Backend,
): void {
  const { kvCacheType } = config;
  const oneBlock = kvGroups(program.kv).map(() => 1);
  const support = backend.supportsKvCache(kvCacheOptions(program, config, oneBlock, 1));
  if (support !== true) {
    throw new BackendError("BACKEND_UNSUPPORTED", `[plan] KV cache of type ${kvCacheType}: ${support.reason}`, {
      details: { kvCacheType, reason: support.reason },
    });
  }
  const neededBytes = residentBytes(
    program.weights.map((spec) => loader.lazy(spec.name, backend, spec).descriptor),
    backend,
    loader,
  );
  if (neededBytes > loader.cache.budgetBytes) throw overBudget("the model", neededBytes, loader.cache);
}
