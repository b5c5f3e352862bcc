// Times steps of a plan on synthetic tokens: prefill at some depth, and decoding after it. One sequence owns the KV
// cache; a repeated measurement overwrites the previous one, so that the depth stays filled.

import type { KvCache, OutputRow } from "../../backends/contract.js";
import type { ExecutionPlan } from "../../plan/execution-plan.js";
import { requireFinite } from "../../plan/output-row.js";
import { RandomSource } from "../../sampler/rng.js";

const TOKEN_SEED = 1;
/** Enough to use every weight and every buffer once. */
const WARM_UP_TOKENS = 64;
const WARM_UP_STEPS = 4;

/** What is measured: prefill and decode lengths, and the depth at which they start. */
export interface BenchSizes {
  readonly promptTokens: number;
  readonly decodeTokens: number;
  /** Positions in the KV cache before the timed tokens. */
  readonly depth: number;
}

/** The smallest context length for these sizes. */
export function contextFor({ promptTokens, decodeTokens, depth }: BenchSizes): number {
  return depth + Math.max(promptTokens, decodeTokens, WARM_UP_STEPS);
}

/** Measures prefill and decode speed of one plan. */
export class BenchRunner implements Disposable {
  readonly #plan: ExecutionPlan;
  readonly #sizes: BenchSizes;
  readonly #signal: AbortSignal;
  readonly #kvCache: KvCache;
  readonly #table: Int32Array;
  readonly #tokens: Int32Array;

  constructor(plan: ExecutionPlan, sizes: BenchSizes, signal: AbortSignal) {
    this.#plan = plan;
    this.#sizes = sizes;
    this.#signal = signal;
    this.#kvCache = plan.createKvCache(contextFor(sizes));
    this.#table = Int32Array.from({ length: this.#kvCache.options.blocks }, (_, block) => block);
    const random = new RandomSource(TOKEN_SEED);
    this.#tokens = Int32Array.from({ length: contextFor(sizes) }, () =>
      Math.floor(random.next() * plan.program.vocabularySize),
    );
  }

  get kvCacheBytes(): number {
    return this.#kvCache.sizeBytes;
  }

  async warmUp(): Promise<void> {
    const { promptTokens, depth } = this.#sizes;
    await this.#feed(0, Math.max(1, depth, Math.min(promptTokens, WARM_UP_TOKENS)));
    await this.#decode(WARM_UP_STEPS);
  }

  /** Prefill speed in tokens per second. */
  async prefill(): Promise<number> {
    const { promptTokens, depth } = this.#sizes;
    const start = performance.now();
    await this.#feed(depth, depth + promptTokens);
    return (promptTokens * 1000) / (performance.now() - start);
  }

  /** Decode speed in tokens per second. */
  async decode(): Promise<number> {
    const { decodeTokens } = this.#sizes;
    const start = performance.now();
    await this.#decode(decodeTokens);
    return (decodeTokens * 1000) / (performance.now() - start);
  }

  [Symbol.dispose](): void {
    this.#kvCache[Symbol.dispose]();
  }

  /** Each token is the most likely one after its predecessor, as in greedy decoding. */
  async #decode(count: number): Promise<void> {
    const { depth } = this.#sizes;
    let token = this.#tokens[depth];
    for (let position = depth; position < depth + count; position++) {
      const rows = await this.#step(Int32Array.of(token), position, true);
      const row = requireFinite(rows[0]);
      if (row.kind === "candidates") [token] = row.ids;
    }
  }

  async #feed(from: number, to: number): Promise<void> {
    const { backend, config } = this.#plan;
    const chunkTokens = Math.min(backend.chunkTokens ?? backend.maxStepTokens, config.contextTokens);
    for (let position = from; position < to; position += chunkTokens) {
      const end = Math.min(to, position + chunkTokens);
      await this.#step(this.#tokens.slice(position, end), position, end === to);
    }
  }

  async #step(tokens: Int32Array, position: number, wantsNext: boolean): Promise<readonly OutputRow[]> {
    return await this.#plan.step(
      {
        tokens,
        positions: tokens.map((_, index) => position + index),
        sequenceOffsets: Int32Array.of(0, tokens.length),
        blockTables: [this.#table],
        outputs: wantsNext ? [{ row: tokens.length - 1, want: { kind: "candidates", count: 1 } }] : [],
      },
      this.#kvCache,
      { signal: this.#signal },
    );
  }
}
