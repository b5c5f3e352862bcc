// One sequence on its way through a plan: its own KV blocks, its position, and prompts fed in chunks that a step can
// hold. Those that share steps and a cache with others are the scheduler's.

import type { OutputRequest } from "../backends/contract.js";
import { ContextError } from "../errors.js";
import { Lifetime } from "../lifetime.js";
import type { ExecutionPlan } from "../plan/execution-plan.js";
import { type FiniteRow, requireFinite } from "../plan/output-row.js";
import type { KvLease, KvSpace } from "./kv-space.js";

/** What is wanted of a token, without saying in which row of which step it will be. */
export type RowRequest = Omit<OutputRequest, "row">;

export interface EngineResources {
  readonly plan: ExecutionPlan;
  readonly space: KvSpace;
}

export class Sequence implements Disposable {
  readonly #plan: ExecutionPlan;
  readonly #lease: KvLease;
  readonly #lifetime = new Lifetime("the sequence");
  #position = 0;

  /** `capacityTokens` is the furthest it may grow. */
  constructor({ plan, space }: EngineResources, capacityTokens: number) {
    this.#plan = plan;
    this.#lease = space.lease(capacityTokens);
  }

  /**
   * Feeds tokens, asking `request` what each is to return (undefined: nothing). Yields the rows asked for, in order.
   * An aborted signal rejects with its reason.
   */
  async *feed(
    tokens: Int32Array,
    request: (index: number) => RowRequest | undefined,
    signal?: AbortSignal,
  ): AsyncGenerator<FiniteRow, void, undefined> {
    const { maxStepTokens, chunkTokens = maxStepTokens, maxStepOutputs } = this.#plan.backend;
    for (let start = 0; start < tokens.length;) {
      const outputs: OutputRequest[] = [];
      let end = start;
      while (end < tokens.length && end - start < chunkTokens && outputs.length < maxStepOutputs) {
        const wanted = request(end);
        if (wanted !== undefined) outputs.push({ row: end - start, ...wanted });
        end++;
      }
      yield* await this.#step(tokens.subarray(start, end), outputs, signal);
      start = end;
    }
  }

  [Symbol.dispose](): void {
    if (this.#lifetime.end()) this.#lease[Symbol.dispose]();
  }

  async #step(
    tokens: Int32Array,
    outputs: readonly OutputRequest[],
    signal: AbortSignal | undefined,
  ): Promise<readonly FiniteRow[]> {
    this.#lifetime.assertAlive();
    const { kvCache, table } = this.#lease;
    const end = this.#position + tokens.length;
    if (!table.reserve(end)) {
      throw new ContextError(
        "CONTEXT_OVERFLOW",
        `[sequence] ${end} tokens do not fit the ${table.capacityTokens} set aside`,
        {
          details: { tokens: end, capacityTokens: table.capacityTokens },
        },
      );
    }
    const rows = await this.#plan.step(
      {
        tokens,
        positions: consecutive(this.#position, tokens.length),
        sequenceOffsets: Int32Array.of(0, tokens.length),
        blockTables: [table.blocks],
        outputs,
      },
      kvCache,
      signal === undefined ? {} : { signal },
    );
    this.#position = end;
    return rows.map(requireFinite);
  }
}

/** Positions of tokens that follow one another. */
export function consecutive(first: number, count: number): Int32Array {
  const positions = new Int32Array(count);
  for (let index = 0; index < count; index++) positions[index] = first + index;
  return positions;
}
