// Reads single hyper-parameters from GGUF metadata; one that is missing, of the wrong type or out of range is refused
// with its key.

import { GgufError } from "../errors.js";
import type { ModelSource } from "./descriptor.js";

/** Largest context or window that fits 32-bit counters. */
export const MAX_CONTEXT = 2 ** 31 - 1;

/** Reads and checks hyper-parameters of one file by their keys without the architecture's prefix. */
export class HyperParameterReader {
  readonly #source: ModelSource;

  constructor(source: ModelSource) {
    this.#source = source;
  }

  get prefix(): string {
    return this.#source.keyPrefix;
  }

  refuse(key: string, expected: string, found: string): never {
    throw new GgufError("GGUF_HYPERPARAMETER", { field: `${this.prefix}.${key}`, expected, found });
  }

  count(key: string, max: number): number {
    return this.optionalCount(key, max) ?? this.refuse(key, `a whole number from 1 to ${max}`, "no such key");
  }

  optionalCount(key: string, max: number): number | undefined {
    const value = this.#number(key);
    return value === undefined ? undefined : this.#checkedCount(key, value, max);
  }

  positive(key: string): number {
    return this.optionalPositive(key) ?? this.refuse(key, "a positive number", "no such key");
  }

  optionalPositive(key: string): number | undefined {
    const value = this.optionalNonNegative(key);
    return value === 0 ? this.refuse(key, "a positive number", "0") : value;
  }

  optionalNonNegative(key: string): number | undefined {
    const value = this.#number(key);
    return value !== undefined && value < 0 ? this.refuse(key, "not a negative number", String(value)) : value;
  }

  flag(key: string): boolean | undefined {
    return this.#source.metadata.boolean(`${this.prefix}.${key}`);
  }

  text(key: string): string | undefined {
    return this.#source.metadata.string(`${this.prefix}.${key}`);
  }

  /** A number, or an array of numbers. */
  numbers(key: string): Float64Array | undefined {
    const { metadata } = this.#source;
    const fullKey = `${this.prefix}.${key}`;
    if (metadata.typeOf(fullKey) === "array") return metadata.array(fullKey)?.toNumbers();
    const value = metadata.number(fullKey);
    return value === undefined ? undefined : Float64Array.of(value);
  }

  /** One count for each of the first `layers` layers, from a single number or from a list, whose entries may be `least`. */
  layerCounts(key: string, max: number, layers: number, least = 1): readonly number[] {
    return (
      this.optionalLayerCounts(key, max, layers, least) ??
      this.refuse(key, `a whole number from 1 to ${max}`, "no such key")
    );
  }

  optionalLayerCounts(key: string, max: number, layers: number, least = 1): readonly number[] | undefined {
    if (!this.isArray(key)) {
      const count = this.optionalCount(key, max);
      return count === undefined ? undefined : Array.from({ length: layers }, () => count);
    }
    return Array.from(this.layerList(key, layers), (value) => this.#checkedCount(key, value, max, least));
  }

  /** The numbers of a list for the first `layers` layers; it may have entries for all blocks or for these alone. */
  layerList(key: string, layers: number): Float64Array {
    const values = this.numbers(key) ?? new Float64Array();
    const lengths = [...new Set([layers, this.optionalCount("block_count", MAX_CONTEXT) ?? layers])];
    if (!lengths.includes(values.length))
      this.refuse(key, `one entry for each of ${lengths.join(" or ")} layers`, `${values.length} entries`);
    return values.subarray(0, layers);
  }

  isArray(key: string): boolean {
    return this.#source.metadata.typeOf(`${this.prefix}.${key}`) === "array";
  }

  /** Some files write one number per layer; they are read as one number if all are the same. */
  #number(key: string): number | undefined {
    const values = this.numbers(key);
    if (values === undefined) return undefined;
    const first = values[0];
    if (!Number.isFinite(first) || values.some((value) => value !== first)) {
      this.refuse(key, "one number, or the same number for every layer", `${values.length} different numbers`);
    }
    return first;
  }

  #checkedCount(key: string, value: number, max: number, least = 1): number {
    if (!Number.isInteger(value) || value < least || value > max) {
      this.refuse(key, `a whole number from ${least} to ${max}`, String(value));
    }
    return value;
  }
}
