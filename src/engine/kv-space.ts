// The KV memory of one model: one cache, one pool of blocks, and a queue of those who wait for room. A sequence gets
// all the blocks it may need at once, so that none fails half way because of another.

import type { KvCache } from "../backends/contract.js";
import { BackendError, ContextError, DisposedError } from "../errors.js";
import { BlockPool } from "../kv-cache/block-pool.js";
import { BlockTable } from "../kv-cache/block-table.js";
import type { ExecutionPlan } from "../plan/execution-plan.js";

export interface KvLease extends Disposable {
  readonly kvCache: KvCache;
  readonly blocks: Int32Array;
}

interface Waiter {
  readonly tokens: number;
  readonly grant: (lease: KvLease) => void;
  readonly refuse: (error: unknown) => void;
}

interface Space {
  readonly kvCache: KvCache;
  readonly pool: BlockPool;
}

export class KvSpace implements Disposable {
  readonly #plan: ExecutionPlan;
  #space: Space | undefined;
  #waiters: Waiter[] = [];
  #disposed = false;

  constructor(plan: ExecutionPlan) {
    this.#plan = plan;
  }

  /** Room for positions 0 to `tokens` − 1; first come, first served. An aborted wait rejects with the signal's reason. */
  async lease(tokens: number, signal?: AbortSignal): Promise<KvLease> {
    if (this.#disposed) throw new DisposedError("the model");
    signal?.throwIfAborted();
    const { contextTokens } = this.#plan.config;
    if (tokens > contextTokens) throw contextError(tokens, contextTokens);
    this.#space ??= this.#create();
    let onAbort: (() => void) | undefined;
    try {
      return await new Promise((grant, refuse) => {
        const waiter: Waiter = { tokens, grant, refuse };
        onAbort = () => this.#drop(waiter, signal?.reason);
        signal?.addEventListener("abort", onAbort);
        this.#waiters.push(waiter);
        this.#serve();
      });
    } finally {
      if (onAbort !== undefined) signal?.removeEventListener("abort", onAbort);
    }
  }

  /** Those who still wait are refused; the memory goes at once. */
  [Symbol.dispose](): void {
    this.#disposed = true;
    for (const { refuse } of this.#waiters) refuse(new DisposedError("the model"));
    this.#waiters = [];
    this.#space?.kvCache[Symbol.dispose]();
  }

  #serve(): void {
    for (let next = this.#waiters[0]; next !== undefined; next = this.#waiters[0]) {
      const lease = this.#tryLease(next.tokens);
      if (lease === undefined) return;
      this.#waiters.shift();
      next.grant(lease);
    }
  }

  #tryLease(tokens: number): KvLease | undefined {
    const { kvCache, pool } = this.#space ?? this.#create();
    const table = new BlockTable(pool);
    if (!table.reserve(tokens)) return undefined;
    return {
      kvCache,
      blocks: table.blocks,
      [Symbol.dispose]: () => {
        table[Symbol.dispose]();
        this.#serve();
      },
    };
  }

  #drop(waiter: Waiter, reason: unknown): void {
    const index = this.#waiters.indexOf(waiter);
    if (index === -1) return;
    this.#waiters.splice(index, 1);
    waiter.refuse(reason);
    this.#serve();
  }

  #create(): Space {
    refuseTooLarge(this.#plan);
    const kvCache = this.#plan.createKvCache();
    const { blocks, blockTokens } = kvCache.options;
    return { kvCache, pool: new BlockPool(blocks, blockTokens) };
  }
}

function contextError(tokens: number, contextTokens: number): ContextError {
  return new ContextError("CONTEXT_OVERFLOW", `[context] ${tokens} tokens do not fit a context of ${contextTokens}`, {
    details: { tokens, contextTokens },
  });
}

/** Weights that are still to come and the cache must fit in what is free now; better said before than found out. */
function refuseTooLarge(plan: ExecutionPlan): void {
  const { residentWeightBytes, kvCacheBytes, scratchBytes } = plan.memory();
  const weightBytes = Math.max(0, residentWeightBytes - plan.loadingStats().cachedBytes);
  const neededBytes = weightBytes + kvCacheBytes + scratchBytes;
  const { availableBytes } = plan.backend.memory();
  if (neededBytes <= availableBytes) return;
  throw new BackendError(
    "BACKEND_MEMORY",
    `[${plan.backend.description.name}] ${megabytes(neededBytes)} are needed (weights ${megabytes(weightBytes)}, ` +
      `KV cache for ${plan.config.contextTokens} tokens ${megabytes(kvCacheBytes)}, scratch ${megabytes(scratchBytes)}) ` +
      `but ${megabytes(availableBytes)} are free. Use a smaller model or a smaller context.`,
    { details: { neededBytes, weightBytes, kvCacheBytes, scratchBytes, availableBytes } },
  );
}

function megabytes(bytes: number): string {
  return `${Math.ceil(bytes / 1e6)} MB`;
}
