// Keys and values in the addon's memory. Its layout (transposed keys, one cell per head and block) is the addon's own.

import { Lifetime } from "../../lifetime.js";
import type { KvCache, KvCacheOptions } from "../contract.js";
import type { NativeAddon, NativeKvCache } from "./border.js";
import { native } from "./native-error.js";

export class CpuKvCache implements KvCache {
  readonly options: KvCacheOptions;
  readonly sizeBytes: number;
  readonly #native: NativeKvCache;
  readonly #lifetime = new Lifetime("the KV cache");

  constructor(addon: NativeAddon, options: KvCacheOptions) {
    this.options = options;
    this.#native = native(() => addon.createKvCache(options));
    this.sizeBytes = this.#native.sizeBytes;
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
