// Keys and values on the device, laid out as in kernels/attention/kv-cache.h. A running step holds a cache that is
// disposed meanwhile: its memory is freed when the last holder releases it. Clearing and copying are queued on a stream
// of the runtime between steps; steps wait for them on the device.

import { BackendError, GpuError } from "../../../errors.js";
import { Lifetime } from "../../../lifetime.js";
import { blocksOf, CacheOrder, checkedGrowth, checkedPairs } from "../../cache-order.js";
import type { KvCache, KvCacheOptions } from "../../contract.js";
import type { DeviceBlock } from "./device-memory.js";
import type { DeviceAddress, EventHandle } from "../drivers/shared/driver.js";
import { kvLayout, type StepCache, stepCacheAt, supportsGpuKvCache } from "./kv-layout.js";
import type { GpuRuntime } from "./runtime.js";
import { stateSlotsBytes } from "./state-layout.js";

/** Keeps a cache's memory allocated until it is disposed. */
export interface KvCacheHold extends StepCache, Disposable {
  /** Resolves when earlier copy requests are queued; undefined if there are none. */
  readonly turn: Promise<void> | undefined;
  /** The event to wait for before the memory is used; undefined once it has passed. */
  readonly pending: EventHandle | undefined;
}

/** A paged KV cache in device memory. */
export class GpuKvCache implements KvCache {
  readonly options: KvCacheOptions;
  readonly sizeBytes: number;
  readonly runtime: GpuRuntime;
  readonly #block: DeviceBlock;
  readonly #order = new CacheOrder();
  readonly #lifetime = new Lifetime("the KV cache");
  readonly #places: StepCache;
  /** Recorded after the last clearing or copy. */
  readonly #written: EventHandle;
  #isWritten = false;

  constructor(runtime: GpuRuntime, options: KvCacheOptions) {
    runtime.assertUsable();
    const support = supportsGpuKvCache(options);
    if (support !== true)
      throw new BackendError("BACKEND_UNSUPPORTED", `[kv-cache] ${support.reason}`, { details: { options } });
    this.runtime = runtime;
    this.options = options;
    this.sizeBytes = kvLayout(options).sizeBytes;
    this.#block = allocate(runtime, options, this.sizeBytes);
    this.#places = stepCacheAt(this.#block.address, options);
    this.#written = runtime.device.createEvent();
    runtime.device.fill(this.#block.address, 0, this.#block.sizeBytes, runtime.clearing);
    runtime.device.record(this.#written, runtime.clearing);
  }

  get disposed(): boolean {
    return this.#lifetime.disposed;
  }

  get pending(): EventHandle | undefined {
    this.#isWritten ||= this.runtime.device.isDone(this.#written);
    return this.#isWritten ? undefined : this.#written;
  }

  lease(): KvCacheHold {
    this.#lifetime.assertAlive();
    return new Hold(this, this.#places, this.#order);
  }

  copyBlocks(pairs: Int32Array, group = 0): void {
    this.#lifetime.assertAlive();
    this.runtime.assertUsable();
    const checked = checkedPairs(pairs, blocksOf(this.options, group));
    if (checked.length > 0) this.#order.copy(() => this.#queued(() => this.#queueCopies(checked, group)));
  }

  copyFrom(source: KvCache, blocks: number | readonly number[]): void {
    if (!(source instanceof GpuKvCache)) throw new TypeError("the caches belong to different backends");
    const counts = checkedGrowth(source.options, this.options, blocks);
    this.#lifetime.assertAlive();
    source.#lifetime.assertAlive();
    this.runtime.assertUsable();
    // The source's memory, too, must stay until the copy has ended.
    this.#order.copy(() => source.#queued(() => this.#queued(() => this.#queueGrowth(source, counts))));
  }

  [Symbol.dispose](): void {
    if (this.#lifetime.end()) this.#order.alone(() => this.#free());
  }

  /** Runs what queues copies of this cache's memory, and notes when they will have ended. */
  #queued(work: () => void): void {
    const { device, clearing } = this.runtime;
    this.#isWritten = false;
    try {
      try {
        work();
      } finally {
        // Recorded even if a copy failed: queued work must finish before the memory is freed.
        device.record(this.#written, clearing);
      }
    } catch (error) {
      throw this.runtime.noticed(error);
    }
  }

  #queueCopies(pairs: Int32Array, group: number): void {
    const { device, clearing } = this.runtime;
    for (const { byteOffset, blockBytes } of kvLayout(this.options).groups[group].planes) {
      const blockAddress = (block: number): DeviceAddress =>
        (this.#block.address + BigInt(byteOffset + block * blockBytes)) as DeviceAddress;
      for (let index = 0; index < pairs.length; index += 2) {
        device.copyOnDevice(blockAddress(pairs[index + 1]), blockAddress(pairs[index]), blockBytes, clearing);
      }
    }
  }

  #queueGrowth(source: GpuKvCache, counts: readonly number[]): void {
    const { device, clearing } = this.runtime;
    const [layout, sourceLayout] = [kvLayout(this.options), kvLayout(source.options)];
    for (const [group, { planes }] of layout.groups.entries()) {
      if (counts[group] === 0) continue;
      for (const [index, { byteOffset, blockBytes }] of planes.entries()) {
        const target = this.#block.address + BigInt(byteOffset);
        const from = source.#block.address + BigInt(sourceLayout.groups[group].planes[index].byteOffset);
        device.copyOnDevice(target as DeviceAddress, from as DeviceAddress, counts[group] * blockBytes, clearing);
      }
    }
    const statesBytes = stateSlotsBytes(source.options);
    if (statesBytes === 0) return;
    const target = this.#block.address + BigInt(layout.statesOffset);
    const from = source.#block.address + BigInt(sourceLayout.statesOffset);
    device.copyOnDevice(target as DeviceAddress, from as DeviceAddress, statesBytes, clearing);
  }

  #free(): void {
    this.runtime.release(() => {
      // No step has used it since: only its own clearing and copies can be running.
      if (this.pending !== undefined) this.runtime.device.synchronize();
      this.runtime.device.destroyEvent(this.#written);
      this.runtime.memory.free(this.#block);
    });
  }
}

/** Created for every step, so it is small. */
class Hold implements KvCacheHold {
  readonly groups: StepCache["groups"];
  readonly blockTokens: number;
  readonly states: bigint | undefined;
  readonly turn: Promise<void> | undefined;
  readonly #cache: GpuKvCache;
  #order: CacheOrder | undefined;

  constructor(cache: GpuKvCache, { groups, blockTokens, states }: StepCache, order: CacheOrder) {
    this.groups = groups;
    this.blockTokens = blockTokens;
    this.states = states;
    this.turn = order.enter();
    this.#cache = cache;
    this.#order = order;
  }

  get pending(): EventHandle | undefined {
    return this.#cache.pending;
  }

  [Symbol.dispose](): void {
    const order = this.#order;
    this.#order = undefined;
    order?.leave();
  }
}

function allocate(runtime: GpuRuntime, options: KvCacheOptions, neededBytes: number): DeviceBlock {
  try {
    return runtime.allocate("the KV cache", neededBytes, { apart: true });
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
