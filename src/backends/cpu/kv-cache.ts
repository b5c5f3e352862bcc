// The KV cache in the addon's memory. Its layout (transposed keys, one cell per head and block) is the addon's own.

import { BackendError } from "../../errors.js";
import { Lifetime } from "../../lifetime.js";
import { blocksOf, CacheOrder, checkedGrowth, checkedPairs } from "../cache-order.js";
import type { KvCache, KvCacheOptions } from "../contract.js";
import type { NativeAddon, NativeKvCache } from "./native-bindings.js";
import { hostMemory } from "../host-memory.js";
import { native } from "./native-error.js";

/** A KV cache in the addon's memory. */
export class CpuKvCache implements KvCache {
  readonly options: KvCacheOptions;
  readonly sizeBytes: number;
  /** The order of steps that are not in the addon's queue yet; the queue keeps the order of those that are. */
  readonly order = new CacheOrder();
  readonly #native: NativeKvCache;
  readonly #lifetime = new Lifetime("the KV cache");

  constructor(addon: NativeAddon, options: KvCacheOptions) {
    this.options = options;
    this.sizeBytes = native("BACKEND_UNSUPPORTED", () => addon.kvCacheBytes(options));
    refuseUnfit(this.sizeBytes);
    this.#native = native("BACKEND_UNSUPPORTED", () => addon.createKvCache(options));
  }

  get disposed(): boolean {
    return this.#lifetime.disposed;
  }

  get native(): NativeKvCache {
    this.#lifetime.assertAlive();
    return this.#native;
  }

  copyBlocks(pairs: Int32Array, group = 0): void {
    this.#lifetime.assertAlive();
    const checked = checkedPairs(pairs, blocksOf(this.options, group));
    this.order.copy(() => native("BACKEND_STEP", () => this.#native.copyBlocks(checked, group)));
  }

  copyFrom(source: KvCache, blocks: number | readonly number[]): void {
    if (!(source instanceof CpuKvCache)) throw new TypeError("the caches belong to different backends");
    const counts = Int32Array.from(checkedGrowth(source.options, this.options, blocks));
    const from = source.native;
    this.#lifetime.assertAlive();
    this.order.copy(() => native("BACKEND_STEP", () => this.#native.copyFrom(from, counts)));
  }

  [Symbol.dispose](): void {
    if (this.#lifetime.end()) this.order.alone(() => this.#native.dispose());
  }
}

/** Refuses a cache larger than the free memory: the system would grant the addresses and kill the process on first use. */
function refuseUnfit(neededBytes: number): void {
  const { availableBytes } = hostMemory();
  if (neededBytes <= availableBytes) return;
  throw new BackendError(
    "BACKEND_MEMORY",
    `[kv-cache] ${neededBytes} bytes are needed and ${availableBytes} are free; use a smaller context`,
    {
      details: { neededBytes, availableBytes },
    },
  );
}
