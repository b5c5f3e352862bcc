// The order of steps and block copies on one KV cache: a copy has exclusive access, steps share it, and all run in the
// order of their requests, so that a running step ends before its blocks are copied or overwritten.

import { BackendError } from "../errors.js";
import { groupBlocks } from "./cache-size.js";
import type { KvCacheOptions } from "./contract.js";

/** The number of blocks of a cache group; throws BACKEND_STEP if the cache has no such group. */
export function blocksOf(options: KvCacheOptions, group: number): number {
  const counts = groupBlocks(options);
  if (Number.isInteger(group) && group >= 0 && group < counts.length) return counts[group];
  return refuse("group", `a cache group below ${counts.length}`, String(group));
}

/** A copy of the pairs after checking them; throws BACKEND_STEP. */
export function checkedPairs(pairs: Int32Array, blocks: number): Int32Array {
  if (!(pairs instanceof Int32Array)) refuse("pairs", "an Int32Array", typeof pairs);
  const own = Int32Array.from(pairs);
  if (own.length % 2 !== 0) refuse("pairs", "an even number of blocks: from, to, from, to …", String(own.length));
  const targets = new Set<number>();
  for (const [index, block] of own.entries()) {
    if (block < 0 || block >= blocks) refuse(`pairs[${index}]`, `a block below ${blocks}`, String(block));
    if (index % 2 === 0) continue;
    if (targets.has(block)) refuse(`pairs[${index}]`, "each target block only once", `${block} again`);
    targets.add(block);
  }
  for (let index = 0; index < own.length; index += 2) {
    if (targets.has(own[index])) refuse(`pairs[${index}]`, "a block that is not a target", String(own[index]));
  }
  return own;
}

/**
 * How many blocks of each group are copied from `source` to a cache with these options. Throws BACKEND_STEP unless they
 * have their places there.
 */
export function checkedGrowth(
  source: KvCacheOptions,
  options: KvCacheOptions,
  blocks: number | readonly number[],
): readonly number[] {
  const { blocks: _, blocksByGroup: _byGroup, stateSlots = 0, ...shape } = options;
  if ((source.stateSlots ?? 0) > stateSlots)
    refuse("source.stateSlots", `at most ${stateSlots}`, String(source.stateSlots));
  for (const [field, expected] of Object.entries(shape)) {
    const found: unknown = source[field as keyof KvCacheOptions];
    if (found !== expected) refuse(`source.${field}`, String(expected), String(found));
  }
  const [own, theirs] = [groupBlocks(options), groupBlocks(source)];
  const counts = typeof blocks === "number" ? own.map(() => blocks) : blocks;
  if (counts.length !== own.length) refuse("blocks", `${own.length} numbers`, String(counts.length));
  for (const [group, count] of counts.entries()) {
    const most = Math.min(theirs[group], own[group]);
    if (!(Number.isInteger(count) && count >= 0 && count <= most))
      refuse("blocks", `a number of blocks up to ${most}`, String(count));
  }
  return counts;
}

function refuse(field: string, expected: string, found: string): never {
  throw new BackendError("BACKEND_STEP", `[kv-cache] ${field}: expected ${expected}, found ${found}`, {
    details: { field, expected, found },
  });
}

interface WaitingStep {
  readonly begin: () => void;
  readonly fail: (error: unknown) => void;
}
type Work = () => void;

/** Orders the steps and copies of one cache. If nothing is running, nothing waits. */
export class CacheOrder {
  #steps = 0;
  /** In the order of request; the first is a copy that waits for steps. */
  readonly #waiting: (WaitingStep | Work)[] = [];
  /** The failure of a copy that had to wait: its caller has returned, and later steps would read wrong data. */
  #failure: { readonly error: unknown } | undefined;

  /** Enters a step; undefined if it may start at once. Call `leave` in any case, even after a rejection. */
  enter(): Promise<void> | undefined {
    if (this.#waiting.length > 0) return new Promise((begin, fail) => this.#waiting.push({ begin, fail }));
    this.#steps++;
    return this.#failure === undefined ? undefined : Promise.reject(this.#failure.error);
  }

  leave(): void {
    this.#steps--;
    while (this.#waiting.length > 0 && this.#advance(this.#waiting[0])) this.#waiting.shift();
  }

  /** Runs a copy when no step is running. Throws what the copy throws if it does not have to wait. */
  copy(work: Work): void {
    if (this.#failure !== undefined) throw this.#failure.error;
    if (this.#steps === 0) work();
    else this.#waiting.push(() => this.#copyLate(work));
  }

  /** Runs work that must not throw when no step is running: for freeing the cache's memory. */
  alone(work: Work): void {
    if (this.#steps === 0) work();
    else this.#waiting.push(work);
  }

  /** Starts the first in the queue; false if it has to wait for steps. */
  #advance(first: WaitingStep | Work): boolean {
    if (typeof first === "function") {
      if (this.#steps > 0) return false;
      first();
      return true;
    }
    this.#steps++;
    if (this.#failure === undefined) first.begin();
    else first.fail(this.#failure.error);
    return true;
  }

  #copyLate(work: Work): void {
    if (this.#failure !== undefined) return;
    try {
      work();
    } catch (error) {
      this.#failure = { error };
    }
  }
}
