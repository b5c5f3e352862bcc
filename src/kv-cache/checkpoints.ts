// Checkpoints: the recurrent states after an exact number of tokens, kept in a state slot so that a later sequence with
// the same prefix continues there. A checkpoint belongs to the prefix index's node of its last full block and names the
// tokens behind that block and, for each cache group, the block that holds them. Invariant: whichever of its parts is
// evicted or removed first (the slot, a block of its tail, the last full block), the whole checkpoint is dropped.

import { reachTokens } from "../graph/cache-groups.js";
import type { KvReach } from "../graph/program.js";
import type { BlockPool } from "./block-pool.js";
import { CachedBlocks } from "./cached-blocks.js";
import type { PrefixIndex, PrefixNode } from "./prefix-index.js";

/** The recurrent states after a prefix, and what is needed to continue from there. */
export interface Checkpoint {
  /** The node of the last full block; undefined if the prefix is shorter than a block. */
  readonly node: PrefixNode | undefined;
  /** The tokens behind that block, fewer than a block holds. */
  readonly tail: Int32Array;
  /** The block of each cache group that holds the tail; empty if there is no tail. */
  readonly blocks: readonly number[];
  readonly slot: number;
}

/** What checkpoints refer to. */
interface CheckpointParts {
  readonly groups: readonly BlockPool[];
  readonly reaches: readonly KvReach[];
  readonly slots: BlockPool;
  readonly prefixes: PrefixIndex;
}

/** The checkpoints of a prefix index. */
export class Checkpoints {
  /** The slots of all checkpoints. */
  readonly slots: CachedBlocks<Checkpoint>;
  readonly #parts: () => CheckpointParts;
  readonly #byNode = new Map<PrefixNode | undefined, Checkpoint[]>();
  #held = 0;
  #evicted = 0;

  /** `parts` is called when the first checkpoint is added: the pools need `slots` first. */
  constructor(parts: () => CheckpointParts) {
    this.#parts = parts;
    this.slots = new CachedBlocks<Checkpoint>((checkpoint) => this.evict(checkpoint));
  }

  /** Number of checkpoints that can be found. */
  get held(): number {
    return this.#held;
  }

  /** Number of checkpoints that were dropped because their slot or a block was needed. */
  get evicted(): number {
    return this.#evicted;
  }

  /** The longest checkpoint behind a node whose tail these tokens have from `start` on, ending at `end` or before. */
  longest(node: PrefixNode | undefined, tokens: Int32Array, start: number, end: number): Checkpoint | undefined {
    let longest: Checkpoint | undefined;
    for (const checkpoint of this.#byNode.get(node) ?? []) {
      const { length } = checkpoint.tail;
      const isLonger = longest === undefined || length > longest.tail.length;
      if (isLonger && start + length <= end && hasTail(checkpoint, tokens, start)) longest = checkpoint;
    }
    return longest;
  }

  /**
   * Adds a checkpoint, whose slot and blocks must be referenced. If there is one after the same tokens, that one is marked
   * as used instead; returns false then.
   */
  add(checkpoint: Checkpoint): boolean {
    const { node, tail, blocks, slot } = checkpoint;
    const { prefixes, slots } = this.#parts();
    if (this.use(node, tail)) return false;
    if (slots.isCached(slot)) throw new RangeError(`state slot ${slot} belongs to another checkpoint`);
    for (const [group, block] of blocks.entries()) prefixes.groups[group].add(block, checkpoint, tail.length);
    this.slots.add(slot, checkpoint, 1);
    prefixes.pin(node);
    const others = this.#byNode.get(node);
    if (others === undefined) this.#byNode.set(node, [checkpoint]);
    else others.push(checkpoint);
    this.#held++;
    return true;
  }

  /** Marks the checkpoint behind a node with this tail as used most recently; false if there is none. */
  use(node: PrefixNode | undefined, tail: Int32Array): boolean {
    const known = this.longest(node, tail, 0, tail.length);
    if (known?.tail.length !== tail.length) return false;
    const { slots } = this.#parts();
    slots.retain(known.slot);
    slots.release([known.slot]);
    return true;
  }

  /** Drops a checkpoint because a part of it is evicted. */
  evict(checkpoint: Checkpoint): void {
    if (this.drop(checkpoint)) this.#evicted++;
  }

  /** Drops a checkpoint; its slot and its tail's blocks are free if nothing else needs them. False if it is gone already. */
  drop(checkpoint: Checkpoint): boolean {
    const { node, blocks, slot } = checkpoint;
    const others = this.#byNode.get(node);
    const index = others?.indexOf(checkpoint) ?? -1;
    if (others === undefined || index < 0) return false;
    others.splice(index, 1);
    if (others.length === 0) this.#byNode.delete(node);
    this.#held--;
    const { groups, prefixes, slots } = this.#parts();
    slots.uncache(slot, checkpoint);
    for (const [group, block] of blocks.entries()) groups[group].uncache(block, checkpoint);
    prefixes.unpin(node);
    return true;
  }

  /** Drops the checkpoints behind a node if its block of a group that sees everything is lost. */
  blockLost(node: PrefixNode, group: number): void {
    if (reachTokens(this.#parts().reaches[group]) < Number.POSITIVE_INFINITY) return;
    for (const checkpoint of this.#byNode.get(node)?.slice() ?? []) this.evict(checkpoint);
  }

  /**
   * Drops the checkpoints behind a node because their contents are wrong: all of them, or behind the root those whose
   * tails these tokens begin with.
   */
  invalidate(node: PrefixNode | undefined, tokens: Int32Array): void {
    for (const checkpoint of this.#byNode.get(node)?.slice() ?? [])
      if (node !== undefined || hasTail(checkpoint, tokens, 0)) this.drop(checkpoint);
  }
}

function hasTail({ tail }: Checkpoint, tokens: Int32Array, start: number): boolean {
  for (let index = 0; index < tail.length; index++) if (tail[index] !== tokens[start + index]) return false;
  return true;
}
