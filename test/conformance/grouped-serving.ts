// Texts through scheduler, block pools and one backend, over a cache whose groups have few blocks, and the same texts in
// a cache that never releases one: what both compute has to be the same.

import { blockCounts } from "../../src/backends/cache-size.js";
import type { Backend, CompiledProgram, KvCache, OutputRow, StepInput } from "../../src/backends/contract.js";
import { StepPacker } from "../../src/engine/step-packer.js";
import { kvGroups } from "../../src/graph/cache-groups.js";
import type { KvShape } from "../../src/graph/program.js";
import { BlockCopies } from "../../src/kv-cache/block-copies.js";
import { BlockPools } from "../../src/kv-cache/block-pools.js";
import { StepCheck } from "../../src/plan/step-check.js";
import type { SchedulerLimits } from "../../src/scheduler/limits.js";
import type { ScheduledSequence } from "../../src/scheduler/scheduled-sequence.js";
import { Scheduler } from "../../src/scheduler/scheduler.js";
import type { StepSlice } from "../../src/scheduler/step-slice.js";

/** A prompt and the tokens that follow it; several continuations share the prompt. */
export interface GivenText {
  readonly prompt: Int32Array;
  readonly continuations: readonly Int32Array[];
}

/** The hidden state of the prompt's last token and of each token after it but the last, of each continuation. */
export type TextRows = readonly (readonly Float32Array[])[];

export interface ServedText {
  readonly rows: TextRows;
  readonly cachedTokens: number;
}

interface ServingOptions {
  readonly kv: KvShape;
  readonly kvCacheType: KvCache["options"]["type"];
  readonly blockTokens: number;
  /** Of each cache group. */
  readonly blocks: readonly number[];
  readonly prefillTokens: number;
  readonly vocabularySize: number;
}

interface Job {
  readonly continuation: Int32Array;
  readonly waiting: Int32Array[];
  readonly text: { readonly rows: Float32Array[][]; cachedTokens: number };
  readonly rows: Float32Array[];
}

/** Serves texts over one cache, which keeps the prefixes of those before. */
export class GroupedServing implements Disposable {
  readonly pools: BlockPools;
  readonly scheduler: Scheduler;
  /** Most blocks of each group that a sequence has held in a step. */
  readonly mostHeld: number[];
  readonly #compiled: CompiledProgram;
  readonly #cache: KvCache;
  readonly #copies: readonly BlockCopies[];
  readonly #packer: StepPacker;
  readonly #check: StepCheck;
  readonly #jobs = new Map<ScheduledSequence, Job>();

  constructor(backend: Backend, compiled: CompiledProgram, options: ServingOptions) {
    const { kv, blocks, blockTokens, prefillTokens, vocabularySize, kvCacheType: type } = options;
    this.#compiled = compiled;
    this.pools = new BlockPools(
      kvGroups(kv).map((group, index) => ({ ...group, blocks: blocks[index] })),
      blockTokens,
      { sharesPrefixes: true },
    );
    this.#cache = backend.createKvCache({ ...kv, ...blockCounts(blocks), blockTokens, type });
    this.#copies = blocks.map((_, group) => new BlockCopies((pairs) => this.#cache.copyBlocks(pairs, group)));
    const limits: SchedulerLimits = {
      stepTokens: 2 * prefillTokens,
      stepOutputs: 16,
      prefillTokens,
      prefillTokensWhileDecoding: prefillTokens,
      sequences: 8,
      queued: 50,
    };
    this.scheduler = new Scheduler(this.pools, limits, (from, to, group) => this.#copies[group].add(from, to));
    this.#packer = new StepPacker(limits);
    this.#check = new StepCheck({
      maxTokens: limits.stepTokens,
      maxOutputs: 16,
      contextTokens: 4096,
      vocabularySize,
      kv,
    });
    this.mostHeld = blocks.map(() => 0);
  }

  async serve(texts: readonly GivenText[]): Promise<readonly ServedText[]> {
    const served = texts.map(({ prompt, continuations }) => {
      const [continuation, ...waiting] = continuations;
      const text = { rows: continuations.map((): Float32Array[] => []), cachedTokens: 0 };
      const capacityTokens = prompt.length + Math.max(...continuations.map(({ length }) => length));
      const slots = continuations.length;
      const sequence = this.scheduler.submit({ tokens: prompt, capacityTokens, priority: 0, slots });
      if (typeof sequence === "string") throw new Error(sequence);
      this.#jobs.set(sequence, { continuation, waiting, text, rows: text.rows[0] });
      return text;
    });
    while (this.#jobs.size > 0) {
      const slices = this.scheduler.next();
      if (slices === undefined) throw new Error("nothing can be computed");
      await this.#step(slices);
    }
    return served;
  }

  [Symbol.dispose](): void {
    this.#cache[Symbol.dispose]();
  }

  async #step(slices: readonly StepSlice[]): Promise<void> {
    for (const copies of this.#copies) copies.flush();
    for (const { sequence } of slices)
      for (const [group, { heldBlocks }] of sequence.tables.groups.entries())
        this.mostHeld[group] = Math.max(this.mostHeld[group], heldBlocks);
    const step = this.#packer.pack(slices, () => ({ want: { kind: "hidden" } }));
    this.#check.check(step, this.#cache);
    const rows = await this.#compiled.run(step, this.#cache);
    this.scheduler.advance(slices);
    let next = 0;
    for (const { sequence, outputs } of slices) if (outputs > 0) this.#take(sequence, rows[next++]);
  }

  #take(sequence: ScheduledSequence, row: OutputRow): void {
    const job = this.#jobs.get(sequence);
    if (job === undefined) throw new Error("a sequence without a job");
    const { text, waiting } = job;
    while (waiting.length > 0) {
      const twin = this.scheduler.fork(sequence);
      const continuation = waiting.pop() as Int32Array;
      this.#jobs.set(twin, { continuation, waiting: [], text, rows: text.rows[waiting.length + 1] });
      this.#take(twin, row);
    }
    text.cachedTokens = Math.max(text.cachedTokens, sequence.cachedTokens);
    job.rows.push(hiddenOf(row));
    if (job.rows.length < job.continuation.length) sequence.push(job.continuation[job.rows.length - 1]);
    else {
      this.scheduler.remove(sequence);
      this.#jobs.delete(sequence);
    }
  }
}

/** The same rows from a cache that has blocks for every position of the sequence in every group. */
export async function computeWhole(
  compiled: CompiledProgram,
  cache: KvCache,
  { prompt, continuations }: GivenText,
): Promise<TextRows> {
  const table = Int32Array.from({ length: cache.options.blocks }, (_, block) => block);
  const texts: Float32Array[][] = [];
  for (const continuation of continuations) {
    const tokens = Int32Array.from([...prompt, ...continuation.subarray(0, continuation.length - 1)]);
    const rows: Float32Array[] = [];
    for (let start = 0; start < tokens.length; start += STEP) {
      const end = Math.min(tokens.length, start + STEP);
      for (const row of await compiled.run(wholeStep(tokens, start, end, prompt.length, table), cache))
        rows.push(hiddenOf(row));
    }
    texts.push(rows);
  }
  return texts;
}

const STEP = 24;

function wholeStep(tokens: Int32Array, start: number, end: number, promptTokens: number, table: Int32Array): StepInput {
  const positions = Int32Array.from({ length: end - start }, (_, index) => start + index);
  return {
    tokens: tokens.slice(start, end),
    positions,
    sequenceOffsets: Int32Array.of(0, end - start),
    blockTables: [table],
    outputs: [...positions]
      .filter((position) => position >= promptTokens - 1)
      .map((position) => ({ row: position - start, want: { kind: "hidden" } })),
  };
}

function hiddenOf(row: OutputRow): Float32Array {
  if (row.kind !== "hidden") throw new Error(`expected a hidden state, found ${row.kind}`);
  return row.values;
}
