// Keys and values of all layers, paged: slot = block × blockTokens + position within the block. Values are stored as
// f32; the narrower types are quantized when they are written, which makes this cache the reference for the others.

import { BackendError } from "../../errors.js";
import { kvGroups, type KvPlace, kvPlaces } from "../../graph/cache-groups.js";
import { kvLayers } from "../../graph/program.js";
import { Lifetime } from "../../lifetime.js";
import { codecFor } from "../../quant/codec.js";
import { blocksOf, CacheOrder, checkedGrowth, checkedPairs } from "../cache-order.js";
import { groupBlocks, stateBytes } from "../cache-size.js";
import type { KvCache, KvCacheOptions, KvCacheType } from "../contract.js";

const FLOAT_BYTES = 4;

/** Keys and values of one layer. */
interface KvLayerStorage {
  readonly keys: Float32Array;
  readonly values: Float32Array;
  /** Elements of one position's keys. */
  readonly keyRow: number;
  readonly valueRow: number;
  /** The cache group, whose tables have the layer's blocks. */
  readonly group: number;
}

/** One recurrent state of all slots. */
interface StateStorage {
  readonly slots: Float32Array;
  /** Elements of one slot. */
  readonly elements: number;
}

/** The memory of a cache. A running step keeps a reference to it, so that the cache may be disposed meanwhile. */
export interface KvStorage {
  readonly layers: readonly KvLayerStorage[];
  /** By `StateId`. */
  readonly states: readonly StateStorage[];
  readonly blockTokens: number;
  /** Replaces the values just written by what the cache's type can represent. */
  readonly quantize: (stored: Float32Array) => void;
}

/** Bytes of a cache with these options, all of it in f32. */
export function kvCacheBytes(options: KvCacheOptions): number {
  const counts = groupBlocks(options);
  const places = kvPlaces(kvGroups(options));
  const rows = kvLayers(options).map(
    ({ kvHeads, keyWidth, valueWidth }, layer) => kvHeads * (keyWidth + valueWidth) * counts[places[layer].group],
  );
  return rows.reduce((sum, row) => sum + row, 0) * options.blockTokens * FLOAT_BYTES + stateBytes(options);
}

/** A KV cache in JavaScript arrays. */
export class ReferenceKvCache implements KvCache {
  readonly options: KvCacheOptions;
  readonly sizeBytes: number;
  readonly order = new CacheOrder();
  readonly #lifetime = new Lifetime("the KV cache");
  #storage: KvStorage | undefined;

  constructor(options: KvCacheOptions) {
    const { blockTokens, type } = options;
    this.options = options;
    this.sizeBytes = kvCacheBytes(options);
    const counts = groupBlocks(options);
    const shapes = kvLayers(options);
    const allocate = ({ group }: KvPlace, layer: number): KvLayerStorage => {
      const { kvHeads, keyWidth, valueWidth } = shapes[layer];
      // Small integers to the compiler: see matrix.ts.
      const keyRow = (kvHeads * keyWidth) | 0;
      const valueRow = (kvHeads * valueWidth) | 0;
      const plane = (row: number): Float32Array => new Float32Array(counts[group] * blockTokens * row);
      return { keys: plane(keyRow), values: plane(valueRow), keyRow, valueRow, group };
    };
    try {
      this.#storage = {
        layers: kvPlaces(kvGroups(options)).map(allocate),
        states: (options.states ?? []).map((elements) => ({
          slots: new Float32Array((options.stateSlots ?? 0) * elements),
          elements: elements | 0,
        })),
        blockTokens: blockTokens | 0,
        quantize: quantization(type),
      };
    } catch (error) {
      throw new BackendError(
        "BACKEND_MEMORY",
        `[kv-cache] ${this.sizeBytes} bytes cannot be allocated; use a smaller context`,
        {
          details: { neededBytes: this.sizeBytes },
          cause: error,
        },
      );
    }
  }

  get disposed(): boolean {
    return this.#lifetime.disposed;
  }

  get storage(): KvStorage {
    this.#lifetime.assertAlive();
    return this.#storage as KvStorage;
  }

  copyBlocks(pairs: Int32Array, group = 0): void {
    const { storage } = this;
    const checked = checkedPairs(pairs, blocksOf(this.options, group));
    this.order.copy(() => copyBlocks(storage, checked, group));
  }

  copyFrom(source: KvCache, blocks: number | readonly number[]): void {
    if (!(source instanceof ReferenceKvCache)) throw new TypeError("the caches belong to different backends");
    const counts = checkedGrowth(source.options, this.options, blocks);
    const [{ layers, states, blockTokens }, target] = [source.storage, this.storage];
    this.order.copy(() => {
      for (const [id, { slots }] of states.entries()) target.states[id].slots.set(slots);
      for (const [index, { keys, values, keyRow, valueRow, group }] of layers.entries()) {
        target.layers[index].keys.set(keys.subarray(0, counts[group] * blockTokens * keyRow));
        target.layers[index].values.set(values.subarray(0, counts[group] * blockTokens * valueRow));
      }
    });
  }

  [Symbol.dispose](): void {
    this.#lifetime.end();
    this.#storage = undefined;
  }
}

function copyBlocks({ layers, blockTokens }: KvStorage, pairs: Int32Array, group: number): void {
  const copy = (plane: Float32Array, blockElements: number, from: number, to: number): unknown =>
    plane.copyWithin(to * blockElements, from * blockElements, (from + 1) * blockElements);
  for (let index = 0; index < pairs.length; index += 2) {
    for (const { keys, values, keyRow, valueRow } of layers.filter((layer) => layer.group === group)) {
      copy(keys, blockTokens * keyRow, pairs[index], pairs[index + 1]);
      copy(values, blockTokens * valueRow, pairs[index], pairs[index + 1]);
    }
  }
}

function quantization(type: KvCacheType): (stored: Float32Array) => void {
  switch (type) {
    case "f32":
      return () => {};
    case "f16":
      return (stored) => quantizeThrough("F16", stored);
    case "q8_0":
      return (stored) => quantizeThrough("Q8_0", stored);
    default:
      return type satisfies never;
  }
}

function quantizeThrough(type: "F16" | "Q8_0", values: Float32Array): void {
  const { layout, encode, decode } = codecFor(type);
  const blocks = values.length / layout.blockElements;
  const bytes = new Uint8Array(blocks * layout.blockBytes);
  encode?.(values, 0, bytes, 0, blocks);
  decode(bytes, 0, values, 0, blocks);
}
