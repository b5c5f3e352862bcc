// Which KV caches the steps of a program may use: those of its own device, type and shape.

import { BackendError } from "../../../errors.js";
import { kvGroups } from "../../../graph/cache-groups.js";
import type { KvCache } from "../../contract.js";
import type { LoweringContext } from "../lowering/context.js";
import { GpuKvCache, type KvCacheHold } from "../memory/kv-cache.js";
import type { GpuRuntime } from "../memory/runtime.js";

/** Holds a cache for a step; throws BACKEND_STEP if it is not one for this program. */
export function leaseCache(runtime: GpuRuntime, { options }: LoweringContext, kvCache: KvCache): KvCacheHold {
  if (!(kvCache instanceof GpuKvCache) || kvCache.runtime !== runtime)
    throw new BackendError("BACKEND_STEP", "[gpu] the KV cache belongs to another backend");
  const { kvCacheType, blockTokens } = options.limits;
  const { type, blockTokens: found } = kvCache.options;
  if (type !== kvCacheType || found !== blockTokens) {
    throw new BackendError(
      "BACKEND_STEP",
      `[gpu] expected a KV cache of ${kvCacheType} in blocks of ${blockTokens}, found ${type} in blocks of ${found}`,
    );
  }
  const lease = kvCache.lease();
  const groups = kvGroups(options.fused.program.kv).length;
  if (lease.groups.length === groups) return lease;
  lease[Symbol.dispose]();
  throw new BackendError(
    "BACKEND_STEP",
    `[gpu] expected a KV cache of ${groups} cache groups, found ${lease.groups.length}`,
  );
}
