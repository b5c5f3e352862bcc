// Times steps of a plan on synthetic tokens: prefill of one sequence at some depth, and decoding after it, of one sequence or
// of several together. A repeated measurement overwrites the previous one, so that the depth stays filled.

import type { KvCache, OutputRow, StepInput } from "../../backends/contract.js";
import type { KernelTime } from "../../backends/tuning.js";
import type { ExecutionPlan } from "../../plan/execution-plan.js";
import { requireFinite } from "../../plan/output-row.js";
import { ownStateSlots } from "../../plan/state-slot-check.js";
import { RandomSource } from "../../sampler/rng.js";

const TOKEN_SEED = 1;
/** Enough to use every weight and every buffer once. */
const WARM_UP_TOKENS = 64;
const WARM_UP_STEPS = 4;

/** What is measured: prefill and decode lengths, and the depth at which they start. */
export interface BenchSizes {
  readonly promptTokens: number;
  readonly decodeTokens: number;
  /** Positions of each sequence in the KV cache before the timed tokens. */
  readonly depth: number;
  /** How many sequences decode together. */
  readonly sequences: number;
}

/** What the kernels of one step take. */
export interface BenchProfile {
  /** Decoding sequences, or tokens of one prompt. */
  readonly tokens: number;
  readonly isPrompt: boolean;
  readonly depth: number;
  readonly kernels: readonly KernelTime[];
}

/** The smallest context length for these sizes; a step has no more tokens than that, so all sequences have to fit. */
export function contextFor({ promptTokens, decodeTokens, depth, sequences }: BenchSizes): number {
  return Math.max(depth + Math.max(promptTokens, decodeTokens, WARM_UP_STEPS), sequences);
}

/** Measures prefill and decode speed of one plan. */
export class BenchRunner implements Disposable {
  readonly #plan: ExecutionPlan;
  readonly #sizes: BenchSizes;
  readonly #signal: AbortSignal;
  readonly #kvCache: KvCache;
  /** The block table of each sequence; its state slot, if there are recurrent layers, has the sequence's number. */
  readonly #tables: readonly Int32Array[];
  readonly #tokens: Int32Array;

  constructor(plan: ExecutionPlan, sizes: BenchSizes, signal: AbortSignal) {
    this.#plan = plan;
    this.#sizes = sizes;
    this.#signal = signal;
    const { blockTokens } = plan.config;
    const blocks = Math.ceil(contextFor(sizes) / blockTokens);
    this.#kvCache = plan.createKvCache(blocks * blockTokens * sizes.sequences, sizes.sequences);
    this.#tables = Array.from({ length: sizes.sequences }, (_, sequence) =>
      Int32Array.from({ length: blocks }, (_block, index) => sequence * blocks + index),
    );
    const random = new RandomSource(TOKEN_SEED);
    this.#tokens = Int32Array.from({ length: contextFor(sizes) }, () =>
      Math.floor(random.next() * plan.program.vocabularySize),
    );
  }

  get kvCacheBytes(): number {
    return this.#kvCache.sizeBytes;
  }

  async warmUp(): Promise<void> {
    const { promptTokens, depth, sequences } = this.#sizes;
    await this.#feed(0, 0, Math.max(1, depth, Math.min(promptTokens, WARM_UP_TOKENS)));
    for (let sequence = 1; sequence < sequences; sequence++) await this.#feed(sequence, 0, depth);
    await this.#decode(WARM_UP_STEPS);
    // Kernels of other batch sizes are prepared in the background after the first step: not while steps are timed.
    for (const step of this.#plan.warmUpSteps(sequences)) {
      await this.#plan.prepareWarmUp(step);
      if (!step.runs && step.prompt <= promptTokens) await this.#plan.rehearse(step);
    }
  }

  /** Prefill speed in tokens per second. */
  async prefill(): Promise<number> {
    const { promptTokens, depth } = this.#sizes;
    const start = performance.now();
    await this.#feed(0, depth, depth + promptTokens);
    return (promptTokens * 1000) / (performance.now() - start);
  }

  /** Decode speed in tokens per second, of all sequences together. */
  async decode(): Promise<number> {
    const { decodeTokens, sequences } = this.#sizes;
    const start = performance.now();
    await this.#decode(decodeTokens);
    return (sequences * decodeTokens * 1000) / (performance.now() - start);
  }

  /** Times the kernels of a decoding step, or of a prefill chunk if nothing is decoded. */
  async profile(): Promise<BenchProfile> {
    const { decodeTokens, promptTokens, depth, sequences } = this.#sizes;
    const isPrompt = decodeTokens === 0;
    const { backend, config } = this.#plan;
    const chunkTokens = Math.min(backend.chunkTokens ?? backend.maxStepTokens, config.contextTokens);
    const tokens = isPrompt ? Math.min(promptTokens, chunkTokens) : sequences;
    const kernels = await this.#plan.profileKernels({ tokens, isPrompt, depth, signal: this.#signal });
    return { tokens, isPrompt, depth, kernels };
  }

  [Symbol.dispose](): void {
    this.#kvCache[Symbol.dispose]();
  }

  /**
   * Each token is the most likely one after its predecessor, as in greedy decoding; sequences start with different ones.
   * Steps are queued as the engine does it: before the previous one has ended, where the backend can.
   */
  async #decode(count: number): Promise<void> {
    const { depth, sequences } = this.#sizes;
    const { length } = this.#tokens;
    const tokens = Int32Array.from({ length: sequences }, (_, sequence) => this.#tokens[(depth + sequence) % length]);
    const isAsync = this.#plan.asyncScheduling;
    let running = this.#decodeStep(depth, tokens);
    for (let position = depth + 1; position <= depth + count; position++) {
      const following = isAsync && position < depth + count ? this.#decodeStep(position) : undefined;
      // Its failure is seen when its turn comes, unless the running step has failed before.
      following?.catch(() => {});
      const rows = await running;
      for (const [sequence, found] of rows.entries()) {
        const row = requireFinite(found);
        if (row.kind === "candidates") [tokens[sequence]] = row.ids;
      }
      if (position < depth + count) running = following ?? this.#decodeStep(position, tokens);
    }
  }

  /** One token of each sequence; those that the running step chooses if none are given. */
  #decodeStep(position: number, tokens?: Int32Array): Promise<readonly OutputRow[]> {
    const { sequences } = this.#sizes;
    return this.#step([...this.#tables.keys()], {
      tokens: tokens === undefined ? new Int32Array(sequences) : Int32Array.from(tokens),
      positions: new Int32Array(sequences).fill(position),
      sequenceOffsets: Int32Array.from({ length: sequences + 1 }, (_, sequence) => sequence),
      blockTables: this.#tables,
      outputs: this.#tables.map((_, row) => ({ row, want: { kind: "candidates", count: 1 } })),
      ...(tokens === undefined ? { previousOutputs: Int32Array.from({ length: sequences }, (_, row) => row) } : {}),
    });
  }

  /** Prefill of a sequence's positions from `from` up to `to`. Sequences have different tokens. */
  async #feed(sequence: number, from: number, to: number): Promise<void> {
    const { backend, config } = this.#plan;
    const { length } = this.#tokens;
    const chunkTokens = Math.min(backend.chunkTokens ?? backend.maxStepTokens, config.contextTokens);
    for (let position = from; position < to; position += chunkTokens) {
      const end = Math.min(to, position + chunkTokens);
      const positions = Int32Array.from({ length: end - position }, (_, index) => position + index);
      await this.#step([sequence], {
        tokens: positions.map((own) => this.#tokens[(own + sequence) % length]),
        positions,
        sequenceOffsets: Int32Array.of(0, positions.length),
        blockTables: [this.#tables[sequence]],
        outputs: end === to ? [{ row: positions.length - 1, want: { kind: "candidates", count: 1 } }] : [],
      });
    }
  }

  async #step(sequences: readonly number[], input: StepInput): Promise<readonly OutputRow[]> {
    const states = this.#plan.program.kv.states === undefined ? {} : ownStateSlots(sequences, input);
    return await this.#plan.step({ ...input, ...states }, this.#kvCache, { signal: this.#signal });
  }
}
