// KV memory for the sequences of one model. Each sequence gets a cache of its own and pages through it; one that ended
// leaves its cache to the next. Nobody waits for anybody: what does not fit in memory is refused with the numbers.
// Where many share one cache, served-model.ts has it.

import type { KvCache } from "../backends/contract.js";
import { ContextError } from "../errors.js";
import { BlockPool } from "../kv-cache/block-pool.js";
import { BlockTable } from "../kv-cache/block-table.js";
import { Lifetime } from "../lifetime.js";
import type { ExecutionPlan } from "../plan/execution-plan.js";
import { refuseTooLarge } from "./plan-fit.js";

export interface KvLease extends Disposable {
  readonly kvCache: KvCache;
  readonly table: BlockTable;
}

export class KvSpace implements Disposable {
  readonly #plan: ExecutionPlan;
  readonly #lifetime = new Lifetime("the model");
  /** The largest cache that nobody uses now. */
  #idle: KvCache | undefined;

  constructor(plan: ExecutionPlan) {
    this.#plan = plan;
  }

  /** Room for positions 0 to `tokens` − 1. */
  lease(tokens: number): KvLease {
    this.#lifetime.assertAlive();
    const { contextTokens } = this.#plan.config;
    if (tokens > contextTokens) throw contextError(tokens, contextTokens);
    const kvCache = this.#take(tokens);
    const { blocks, blockTokens } = kvCache.options;
    const table = new BlockTable(new BlockPool(blocks, blockTokens));
    return { kvCache, table, [Symbol.dispose]: () => this.#giveBack(kvCache) };
  }

  [Symbol.dispose](): void {
    this.#lifetime.end();
    this.#idle?.[Symbol.dispose]();
    this.#idle = undefined;
  }

  #take(tokens: number): KvCache {
    const idle = this.#idle;
    if (idle !== undefined && capacityOf(idle) >= tokens) {
      this.#idle = undefined;
      return idle;
    }
    // Too small for this one, and its room may be what is wanting.
    idle?.[Symbol.dispose]();
    this.#idle = undefined;
    refuseTooLarge(this.#plan, tokens);
    return this.#plan.createKvCache(tokens);
  }

  #giveBack(kvCache: KvCache): void {
    const keeps =
      !this.#lifetime.disposed && capacityOf(kvCache) > (this.#idle === undefined ? 0 : capacityOf(this.#idle));
    const freed = keeps ? this.#idle : kvCache;
    if (keeps) this.#idle = kvCache;
    freed?.[Symbol.dispose]();
  }
}

function capacityOf({ options }: KvCache): number {
  return options.blocks * options.blockTokens;
}

function contextError(tokens: number, contextTokens: number): ContextError {
  return new ContextError("CONTEXT_OVERFLOW", `[context] ${tokens} tokens do not fit a context of ${contextTokens}`, {
    details: { tokens, contextTokens },
  });
}
