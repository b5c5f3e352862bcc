// Keys and values in the addon's memory. Its layout (transposed keys, one cell per head and block) is the addon's own.

import { BackendError } from "../../errors.js";
import { Lifetime } from "../../lifetime.js";
import type { KvCache, KvCacheOptions } from "../contract.js";
import type { NativeAddon, NativeKvCache } from "./border.js";
import { hostMemory } from "../host-memory.js";
import { native } from "./native-error.js";

export class CpuKvCache implements KvCache {
  readonly options: KvCacheOptions;
  readonly sizeBytes: number;
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

  [Symbol.dispose](): void {
    if (this.#lifetime.end()) this.#native.dispose();
  }
}

/** The system gives addresses freely and ends the process when they are used: better refused before. */
function refuseUnfit(neededBytes: number): void {
  const { availableBytes } = hostMemory();
  if (neededBytes <= availableBytes) return;
  throw new BackendError("BACKEND_MEMORY", `[kv-cache] ${neededBytes} bytes are needed and ${availableBytes} are free; ask for a smaller context`, {
    details: { neededBytes, availableBytes },
  });
}
