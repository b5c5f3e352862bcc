// Keys and values on the device, laid out as kernels/cache.h has them. A step that is under way holds a cache that is
// disposed meanwhile: its memory is given back when the last holder has let go.

import { BackendError, GpuError } from "../../errors.js";
import { Lifetime } from "../../lifetime.js";
import type { KvCache, KvCacheOptions } from "../contract.js";
import type { DeviceBlock } from "./device-memory.js";
import type { EventHandle } from "./driver.js";
import { kvLayout, supportsKvCache } from "./kv-layout.js";
import type { GpuRuntime } from "./runtime.js";
import type { StepCache } from "./step-layout.js";

/** Holding on to a cache's memory; disposing lets go of it. */
export interface KvLease extends StepCache, Disposable {
  /** What to wait for on the device before the memory is used; undefined once it has passed. */
  readonly cleared: EventHandle | undefined;
}

export class GpuKvCache implements KvCache {
  readonly options: KvCacheOptions;
  readonly sizeBytes: number;
  readonly runtime: GpuRuntime;
  readonly #block: DeviceBlock;
  readonly #cleared: EventHandle;
  readonly #lifetime = new Lifetime("the KV cache");
  #isCleared = false;
  /** Itself, until it is disposed, and every step that uses it. */
  #holders = 1;

  constructor(runtime: GpuRuntime, options: KvCacheOptions) {
    runtime.assertUsable();
    const support = supportsKvCache(options);
    if (support !== true) throw new BackendError("BACKEND_UNSUPPORTED", `[kv-cache] ${support.reason}`, { details: { options } });
    this.runtime = runtime;
    this.options = options;
    this.sizeBytes = kvLayout(options).sizeBytes;
    this.#block = allocate(runtime, options, this.sizeBytes);
    this.#cleared = runtime.device.createEvent();
    runtime.device.fill(this.#block.address, 0, this.#block.sizeBytes, runtime.clearing);
    runtime.device.record(this.#cleared, runtime.clearing);
  }

  get disposed(): boolean {
    return this.#lifetime.disposed;
  }

  lease(): KvLease {
    this.#lifetime.assertAlive();
    this.#holders++;
    this.#isCleared ||= this.runtime.device.isDone(this.#cleared);
    return new Hold(this, this.#block.address, this.#isCleared ? undefined : this.#cleared, this.#letGo);
  }

  [Symbol.dispose](): void {
    if (this.#lifetime.end()) this.#letGo();
  }

  readonly #letGo = (): void => {
    if (--this.#holders > 0) return;
    this.runtime.release(() => {
      // Nobody has used it since: only its clearing can be under way.
      if (!this.#isCleared && !this.runtime.device.isDone(this.#cleared)) this.runtime.device.synchronize();
      this.runtime.device.destroyEvent(this.#cleared);
      this.runtime.memory.free(this.#block);
    });
  };
}

/** Made anew for every step, so it is little. */
class Hold implements KvLease {
  readonly address: bigint;
  readonly blocks: number;
  readonly blockTokens: number;
  readonly cleared: EventHandle | undefined;
  #letGo: (() => void) | undefined;

  constructor({ options }: GpuKvCache, address: bigint, cleared: EventHandle | undefined, letGo: () => void) {
    this.address = address;
    this.blocks = options.blocks;
    this.blockTokens = options.blockTokens;
    this.cleared = cleared;
    this.#letGo = letGo;
  }

  [Symbol.dispose](): void {
    const letGo = this.#letGo;
    this.#letGo = undefined;
    letGo?.();
  }
}

function allocate(runtime: GpuRuntime, options: KvCacheOptions, neededBytes: number): DeviceBlock {
  try {
    return runtime.allocate("the KV cache", neededBytes);
  } catch (error) {
    if (!(error instanceof GpuError) || error.code !== "GPU_OUT_OF_MEMORY") throw error;
    const { availableBytes } = runtime.memory;
    const { blocks, blockTokens } = options;
    const fitting = Math.floor((availableBytes / neededBytes) * blocks) * blockTokens;
    throw new BackendError(
      "BACKEND_MEMORY",
      `[kv-cache] ${blocks * blockTokens} positions take ${neededBytes} bytes and ${availableBytes} are free; at most ${fitting} positions would fit`,
      { details: { neededBytes, availableBytes, fittingTokens: fitting }, cause: error },
    );
  }
}
