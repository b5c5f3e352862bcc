// A device for tests of the loop: its cache holds hashes of everything up to each position, and its "predictions"
// follow from the last one alone. A wrong block, a lost copy or another sequence's row therefore changes the text. With
// state slots the last hash is also what a recurrent layer would keep, and a step that reads another one throws.

import type {
  KvCache,
  KvCacheOptions,
  OutputRequest,
  OutputRow,
  RunOptions,
  StepInput,
} from "../../backends/contract.js";
import { BackendError } from "../../errors.js";
import { chooseToken } from "../../sampler/token-choice.js";
import type { StepRunner } from "../engine-loop.js";

/** Vocabulary size of the simulated model. */
export const VOCABULARY = 40;
/** Tokens per block of the simulated KV cache. */
export const BLOCK_TOKENS = 4;

/** A device whose results show which blocks a step has read. */
export class SimulatedDevice implements StepRunner {
  readonly steps: StepInput[] = [];
  kvCache!: SimulatedCache;
  /** Thrown by the next attempt to create a cache. */
  cacheFailure: unknown;
  /** More blocks do not fit into memory, in all caches that are not disposed. */
  maxCacheBlocks = Number.POSITIVE_INFINITY;
  /** Thrown by the next step. */
  failure: unknown;
  /** Rows after this token are not finite. */
  poison = -1;
  /** Steps wait for this promise. */
  gate: Promise<void> | undefined;
  onLaunch: (step: StepInput) => void = () => {};
  /** Whether steps may be launched before the previous one's tokens are known. */
  asyncScheduling = false;
  /** Steps that are launched and have not ended. */
  running = 0;
  #previous: { readonly rows: readonly OutputRow[]; failed: boolean } = { rows: [], failed: false };
  readonly #caches: SimulatedCache[] = [];

  createKvCache([blocks]: readonly number[], stateSlots = 0): KvCache {
    const failure = this.cacheFailure;
    this.cacheFailure = undefined;
    if (failure !== undefined) throw failure;
    const held = this.#caches.reduce((sum, { disposed, options }) => sum + (disposed ? 0 : options.blocks), 0);
    if (held + blocks > this.maxCacheBlocks) throw new BackendError("BACKEND_MEMORY", "no memory");
    this.kvCache = new SimulatedCache(blocks, stateSlots);
    this.#caches.push(this.kvCache);
    return this.kvCache;
  }

  async step(step: StepInput, kvCache: KvCache, { signal }: RunOptions): Promise<readonly OutputRow[]> {
    if (!(kvCache instanceof SimulatedCache) || kvCache.disposed)
      throw new Error("a cache of this device that is in use");
    this.steps.push(step);
    this.onLaunch(step);
    const previous = this.#previous;
    const rows = this.#compute(this.#withTokens(step), kvCache);
    const current = { rows, failed: true };
    this.#previous = current;
    this.running++;
    try {
      await new Promise((resolve) => setImmediate(resolve));
      await this.gate;
      signal?.throwIfAborted();
      const { failure } = this;
      this.failure = undefined;
      if (failure !== undefined) throw failure;
      if (step.previousOutputs !== undefined && previous.failed)
        throw new BackendError("BACKEND_STEP", "the previous step has failed");
      current.failed = false;
      return rows;
    } finally {
      this.running--;
    }
  }

  #withTokens(step: StepInput): StepInput {
    const { previousOutputs } = step;
    if (previousOutputs === undefined) return step;
    if (!this.asyncScheduling) throw new Error("this device does not run ahead");
    const chosen = (output: number): number => {
      const row = this.#previous.rows[output];
      return row.kind === "token" ? row.token : row.kind === "candidates" ? row.ids[0] : 0;
    };
    return {
      ...step,
      tokens: step.tokens.map((token, row) => (previousOutputs[row] < 0 ? token : chosen(previousOutputs[row]))),
    };
  }

  #compute(step: StepInput, { slots, states }: SimulatedCache): readonly OutputRow[] {
    const { tokens, positions, sequenceOffsets, blockTables, outputs, stateReads, stateWrites } = step;
    const hashes: number[] = [];
    for (const [sequence, table] of blockTables.entries()) {
      const slotOf = (position: number): number =>
        table[Math.floor(position / BLOCK_TOKENS)] * BLOCK_TOKENS + (position % BLOCK_TOKENS);
      for (let row = sequenceOffsets[sequence]; row < sequenceOffsets[sequence + 1]; row++) {
        const before = positions[row] === 0 ? 1 : slots[slotOf(positions[row] - 1)];
        const read = row === sequenceOffsets[sequence] ? stateReads?.[sequence] : undefined;
        if (read !== undefined && (read < 0 ? 1 : states[read]) !== before)
          throw new RangeError(`slot ${read} has other states than those before position ${positions[row]}`);
        hashes[row] = nextHash(before, tokens[row]);
        slots[slotOf(positions[row])] = hashes[row];
        if (stateWrites !== undefined && stateWrites[row] >= 0) states[stateWrites[row]] = hashes[row];
      }
    }
    return outputs.map((request) =>
      tokens[request.row] === this.poison ? { kind: "not-finite", column: 3 } : outputRow(hashes[request.row], request),
    );
  }
}

class SimulatedCache implements KvCache {
  readonly options: KvCacheOptions;
  readonly sizeBytes = 1;
  readonly slots: Int32Array;
  /** The last hash of each state slot. */
  readonly states: Int32Array;
  disposed = false;

  constructor(blocks: number, stateSlots: number) {
    const shape = { layers: 1, kvHeads: 1, keyWidth: 1, valueWidth: 1 };
    this.options = { ...shape, blocks, blockTokens: BLOCK_TOKENS, type: "f32" };
    this.slots = new Int32Array(blocks * BLOCK_TOKENS).fill(-1);
    this.states = new Int32Array(stateSlots).fill(-1);
  }

  copyBlocks(pairs: Int32Array): void {
    for (let index = 0; index < pairs.length; index += 2) {
      this.slots.copyWithin(
        pairs[index + 1] * BLOCK_TOKENS,
        pairs[index] * BLOCK_TOKENS,
        (pairs[index] + 1) * BLOCK_TOKENS,
      );
    }
  }

  copyFrom(source: KvCache, blocks: number | readonly number[]): void {
    if (!(source instanceof SimulatedCache)) throw new TypeError("a cache of another device");
    const count = typeof blocks === "number" ? blocks : blocks[0];
    this.slots.set(source.slots.subarray(0, count * BLOCK_TOKENS));
    this.states.set(source.states);
  }

  [Symbol.dispose](): void {
    this.disposed = true;
  }
}

function nextHash(before: number, token: number): number {
  return Math.imul(before ^ (token + 1), 0x01000193) | 0;
}

/** Any number from the hash, the same each time. */
function logitOf(hash: number, token: number): number {
  return (Math.imul(hash ^ Math.imul(token + 1, 0x9e3779b1), 0x85ebca6b) >>> 8) / 2 ** 21;
}

function outputRow(hash: number, { want, bias, allowMask }: OutputRequest): OutputRow {
  if (want.kind === "hidden") return { kind: "hidden", values: Float32Array.of(hash % 7, 1, -2) };
  const logits = Float32Array.from({ length: VOCABULARY }, (_, token) => logitOf(hash, token));
  if (bias !== undefined) for (const [index, id] of bias.ids.entries()) logits[id] += bias.values[index];
  if (allowMask !== undefined) {
    for (let token = 0; token < VOCABULARY; token++)
      if (((allowMask[token >> 5] >>> (token & 31)) & 1) === 0) logits[token] = Number.NEGATIVE_INFINITY;
  }
  const logSum = Math.log(logits.reduce((sum, logit) => sum + Math.exp(logit), 0));
  if (want.kind === "token") return chooseToken(want, { kind: "logits", logits, logSum });
  if (want.kind === "logits") return { kind: "logits", logits, logSum };
  const ids = Array.from(logits.keys())
    .sort((left, right) => logits[right] - logits[left] || left - right)
    .slice(0, want.count);
  return { kind: "candidates", ids: Int32Array.from(ids), logits: Float32Array.from(ids, (id) => logits[id]), logSum };
}

/** What greedy decoding of a prompt must give, computed without a cache. */
export function expectedTokens(prompt: readonly number[], count: number): number[] {
  const tokens: number[] = [];
  let hash = prompt.reduce(nextHash, 1);
  while (tokens.length < count) {
    const row = outputRow(hash, { row: 0, want: { kind: "candidates", count: 1 } });
    if (row.kind !== "candidates") break;
    tokens.push(row.ids[0]);
    hash = nextHash(hash, row.ids[0]);
  }
  return tokens;
}
