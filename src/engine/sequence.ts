// One sequence on its way through a plan: its own KV blocks, its position, and prompts fed in chunks that a step can
// hold. Serving will run many of these side by side; each already speaks in block tables and offsets.

import type { KvCache, OutputRequest, OutputRow } from "../backends/contract.js";
import { BackendError, ContextError } from "../errors.js";
import { BlockPool } from "../kv-cache/block-pool.js";
import { BlockTable } from "../kv-cache/block-table.js";
import { Lifetime } from "../lifetime.js";
import type { ExecutionPlan } from "../plan/execution-plan.js";

/** What is wanted of a token, without saying in which row of which step it will be. */
export type RowRequest = Omit<OutputRequest, "row">;

export class Sequence implements Disposable {
  readonly #plan: ExecutionPlan;
  readonly #kvCache: KvCache;
  readonly #table: BlockTable;
  readonly #capacity: number;
  readonly #lifetime = new Lifetime("the sequence");
  #position = 0;

  /** `capacityTokens` is the furthest it may grow; memory for that many positions is set aside now. */
  constructor(plan: ExecutionPlan, capacityTokens: number) {
    refuseTooLarge(plan, capacityTokens);
    this.#plan = plan;
    this.#capacity = capacityTokens;
    this.#kvCache = plan.createKvCache(capacityTokens);
    const { blocks, blockTokens } = this.#kvCache.options;
    this.#table = new BlockTable(new BlockPool(blocks, blockTokens));
  }

  get position(): number {
    return this.#position;
  }

  /**
   * Feeds tokens, asking `request` what each is to return (undefined: nothing). Yields the rows asked for, in order;
   * an aborted signal ends it between two chunks.
   */
  async *feed(
    tokens: Int32Array,
    request: (index: number) => RowRequest | undefined,
    signal?: AbortSignal,
  ): AsyncGenerator<OutputRow, void, undefined> {
    const { maxStepTokens } = this.#plan.backend;
    for (let start = 0; start < tokens.length && signal?.aborted !== true; start += maxStepTokens) {
      const chunk = tokens.subarray(start, start + maxStepTokens);
      const outputs: OutputRequest[] = [];
      for (let row = 0; row < chunk.length; row++) {
        const wanted = request(start + row);
        if (wanted !== undefined) outputs.push({ row, ...wanted });
      }
      yield* await this.#step(chunk, outputs);
    }
  }

  [Symbol.dispose](): void {
    if (!this.#lifetime.end()) return;
    this.#table[Symbol.dispose]();
    this.#kvCache[Symbol.dispose]();
  }

  async #step(tokens: Int32Array, outputs: readonly OutputRequest[]): Promise<readonly OutputRow[]> {
    this.#lifetime.assertAlive();
    const end = this.#position + tokens.length;
    if (end > this.#capacity || !this.#table.reserve(end)) {
      throw new ContextError("CONTEXT_OVERFLOW", `[sequence] ${end} tokens do not fit the ${this.#capacity} set aside`, {
        details: { tokens: end, capacityTokens: this.#capacity },
      });
    }
    const rows = await this.#plan.step(
      {
        tokens,
        positions: Int32Array.from(tokens, (_, index) => this.#position + index),
        sequenceOffsets: Int32Array.of(0, tokens.length),
        blockTables: [this.#table.blocks],
        outputs,
      },
      this.#kvCache,
    );
    this.#position = end;
    return rows;
  }
}

/** Weights that are still to come and the cache must fit in what is free now; better said before than found out. */
function refuseTooLarge(plan: ExecutionPlan, capacityTokens: number): void {
  const { residentWeightBytes, scratchBytes } = plan.memory();
  const { cachedBytes } = plan.loadingStats();
  const weightBytes = Math.max(0, residentWeightBytes - cachedBytes);
  const kvCacheBytes = plan.kvCacheBytes(capacityTokens);
  const neededBytes = weightBytes + kvCacheBytes + scratchBytes;
  const { availableBytes } = plan.backend.memory();
  if (neededBytes <= availableBytes) return;
  throw new BackendError(
    "BACKEND_MEMORY",
    `[${plan.backend.description.name}] ${megabytes(neededBytes)} are needed (weights ${megabytes(weightBytes)}, ` +
      `KV cache for ${capacityTokens} tokens ${megabytes(kvCacheBytes)}, scratch ${megabytes(scratchBytes)}) but ` +
      `${megabytes(availableBytes)} are free. Use a smaller model or a smaller context.`,
    { details: { neededBytes, weightBytes, kvCacheBytes, scratchBytes, availableBytes } },
  );
}

function megabytes(bytes: number): string {
  return `${Math.ceil(bytes / 1e6)} MB`;
}
