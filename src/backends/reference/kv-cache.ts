// Keys and values of all layers, paged: slot = block × blockTokens + position within the block. Values are kept as f32;
// the narrower types round on the way in, which is what makes this cache the oracle of the others.

import { BackendError } from "../../errors.js";
import { codecFor } from "../../quant/codec.js";
import type { KvCache, KvCacheOptions } from "../contract.js";

const FLOAT_BYTES = 4;
const Q8_BLOCK = 32;

export function kvCacheBytes({ layers, kvHeads, keyWidth, valueWidth, blocks, blockTokens }: KvCacheOptions): number {
  return layers * kvHeads * (keyWidth + valueWidth) * blocks * blockTokens * FLOAT_BYTES;
}

export class ReferenceKvCache implements KvCache {
  readonly options: KvCacheOptions;
  readonly sizeBytes: number;
  readonly keyRow: number;
  readonly valueRow: number;
  #keys: Float32Array[];
  #values: Float32Array[];

  constructor(options: KvCacheOptions) {
    const { layers, kvHeads, keyWidth, valueWidth, blocks, blockTokens, type } = options;
    this.options = options;
    this.sizeBytes = kvCacheBytes(options);
    this.keyRow = kvHeads * keyWidth;
    this.valueRow = kvHeads * valueWidth;
    if (type === "q8_0" && (keyWidth % Q8_BLOCK !== 0 || valueWidth % Q8_BLOCK !== 0)) {
      throw new BackendError(
        "BACKEND_UNSUPPORTED",
        `[kv-cache] type q8_0: expected head widths in multiples of ${Q8_BLOCK}, found ${keyWidth} and ${valueWidth}`,
        { details: { type, keyWidth, valueWidth } },
      );
    }
    const slots = blocks * blockTokens;
    try {
      this.#keys = Array.from({ length: layers }, () => new Float32Array(slots * this.keyRow));
      this.#values = Array.from({ length: layers }, () => new Float32Array(slots * this.valueRow));
    } catch (error) {
      throw new BackendError("BACKEND_MEMORY", `[kv-cache] ${this.sizeBytes} bytes cannot be allocated; ask for a smaller context`, {
        details: { neededBytes: this.sizeBytes },
        cause: error,
      });
    }
  }

  keys(layer: number): Float32Array {
    return this.#keys[layer];
  }

  values(layer: number): Float32Array {
    return this.#values[layer];
  }

  /** Rounds what was just written to what the cache's type could hold. */
  round(stored: Float32Array): void {
    switch (this.options.type) {
      case "f32":
        return;
      case "f16":
        roundThrough("F16", stored);
        return;
      case "q8_0":
        roundThrough("Q8_0", stored);
        return;
      default:
        this.options.type satisfies never;
    }
  }

  [Symbol.dispose](): void {
    this.#keys = [];
    this.#values = [];
  }
}

function roundThrough(type: "F16" | "Q8_0", values: Float32Array): void {
  const { layout, encode, decode } = codecFor(type);
  const blocks = values.length / layout.blockElements;
  const bytes = new Uint8Array(blocks * layout.blockBytes);
  encode?.(values, 0, bytes, 0, blocks);
  decode(bytes, 0, values, 0, blocks);
}
