// How many blocks of each cache group sequences need: all of a sequence for full attention, and for a sliding window
// those that the next query sees, with room for a step; and how many state slots, with some for checkpoints.

import { CHECKPOINTS_PER_SEQUENCE, groupBlocksFor, sequenceBlocks } from "../backends/cache-size.js";
import type { KvReach } from "../graph/program.js";
import type { BlockPools } from "../kv-cache/block-pools.js";
import type { ScheduledSequence } from "./scheduled-sequence.js";

/** How many blocks of each cache group are needed. */
export interface CacheDemand {
  readonly blocks: readonly number[];
  /** Maximum that a single sequence uses if it runs alone. */
  readonly largest: readonly number[];
  /** State slots; 0 if there are no recurrent layers. */
  readonly stateSlots: number;
}

/** Whether a sequence of this many tokens could run alone in pools of these sizes; a step may be a single block. */
export function couldHold({ reaches, blockTokens }: BlockPools, blocks: readonly number[], tokens: number): boolean {
  return reaches.every((reach, group) => leastBlocks(reach, tokens, blockTokens) <= blocks[group]);
}

/** Maximum number of tokens of a sequence that could run alone in pools of their maximum size. */
export function largestSequence({ reaches, blockTokens, maxBlocks }: BlockPools): number {
  const most = reaches.map((reach, group) =>
    leastBlocks(reach, Number.POSITIVE_INFINITY, blockTokens) <= maxBlocks[group]
      ? Number.POSITIVE_INFINITY
      : maxBlocks[group] * blockTokens,
  );
  return Math.min(...most);
}

function leastBlocks(reach: KvReach, tokens: number, blockTokens: number): number {
  return sequenceBlocks(reach, tokens, { stepTokens: blockTokens, blockTokens });
}

/** Blocks of each group that a sequence holds when it starts: of a window one step's share is taken with each step. */
export function firstBlocks({ reaches, blockTokens }: BlockPools, { length, tables }: ScheduledSequence): number[] {
  return reaches.map((reach, group) => {
    const rest = Math.ceil(length / blockTokens) - tables.groups[group].firstHeld;
    return Math.min(leastBlocks(reach, length, blockTokens), rest);
  });
}

/** Blocks that sequences may need, as far as they could run together, in this order. */
export function demandOf(
  sequences: Iterable<ScheduledSequence>,
  pools: BlockPools,
  limits: { readonly sequences: number; readonly prefillTokens: number },
): CacheDemand {
  const demand = new BlockDemand(pools, limits.prefillTokens);
  let openSlots = limits.sequences;
  for (const { capacityTokens, slots } of sequences) {
    if (slots > openSlots) break;
    demand.add(capacityTokens, slots);
    openSlots -= slots;
  }
  return demand.total();
}

/** Adds up what sequences need that run together. */
class BlockDemand {
  readonly #pools: BlockPools;
  readonly #stepTokens: number;
  #blocks = 0;
  #slots = 0;
  #longest = 0;

  constructor(pools: BlockPools, stepTokens: number) {
    this.#pools = pools;
    this.#stepTokens = stepTokens;
  }

  add(capacityTokens: number, slots: number): void {
    // One block more for each sequence but the first: admission keeps it free.
    const spare = this.#slots === 0 ? slots - 1 : slots;
    this.#blocks += Math.ceil(capacityTokens / this.#pools.blockTokens) * slots + spare;
    this.#slots += slots;
    this.#longest = Math.max(this.#longest, capacityTokens);
  }

  total(): CacheDemand {
    const { reaches, blockTokens, maxBlocks, states } = this.#pools;
    const sizes = { stepTokens: this.#stepTokens, blockTokens };
    const contents = { tokens: this.#blocks * blockTokens, sequences: this.#slots, ...sizes };
    const most = (blocks: number, group: number): number => Math.min(blocks, maxBlocks[group]);
    return {
      blocks: reaches.map((reach) => groupBlocksFor(reach, contents)).map(most),
      largest: reaches.map((reach) => sequenceBlocks(reach, this.#longest, sizes)).map(most),
      stateSlots: Math.min(this.#slots * (1 + CHECKPOINTS_PER_SEQUENCE), states?.maxBlocks ?? 0),
    };
  }
}
