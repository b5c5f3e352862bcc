// Finds full blocks by their contents: a tree whose nodes are a parent and the tokens of one block, looked up by
// chained hash. A hash only says where to look; a node is returned if its parent and its tokens are equal, so a
// collision cannot return a wrong block. A node has at most one block of each cache group. Blocks are evicted group by
// group, so that a window's may be gone while full attention's are there; a node stays while it has a block, a child or
// a table that continues it.

import { CachedBlocks } from "./cached-blocks.js";
import type { Checkpoint } from "./checkpoints.js";

/** The tokens of one block in the prefix index; its path to the root is the prefix that it ends. */
export interface PrefixNode {
  readonly parent: PrefixNode | undefined;
}

/** Told what the index loses, so that checkpoints that need it are dropped. */
interface LostContents {
  /** A block of a node was evicted or removed. */
  block(node: PrefixNode, group: number): void;
  /** The block that a checkpoint ends in was evicted or removed. */
  tail(checkpoint: Checkpoint): void;
}

interface PrefixIndexOptions {
  readonly hash?: BlockHash | undefined;
  readonly lost?: LostContents;
}

/** Hashes the parent's hash and the tokens of one block to 32 bits. */
export type BlockHash = (parentHash: number, tokens: Int32Array, start: number, end: number) => number;

class Node implements PrefixNode {
  /** By cache group; sparse. */
  readonly blocks: (number | undefined)[] = [];
  children = 0;
  pins = 0;
  isRemoved = false;
  nextOfHash: Node | undefined;

  constructor(
    readonly parent: Node | undefined,
    readonly hash: number,
    readonly tokens: Int32Array,
  ) {}
}

/** Finds cached KV blocks by the tokens that they hold. */
export class PrefixIndex {
  /** The cached blocks of each cache group. */
  readonly groups: readonly CachedBlocks<PrefixNode | Checkpoint>[];
  readonly #blockTokens: number;
  readonly #hash: BlockHash;
  /** Random for each index, so that prompts cannot be crafted to collide. */
  readonly #seed = Math.floor(Math.random() * 2 ** 32);
  readonly #byHash = new Map<number, Node>();
  #nodes = 0;

  constructor(blockTokens: number, groups: number, { hash = mixTokens, lost }: PrefixIndexOptions = {}) {
    this.#blockTokens = blockTokens;
    this.#hash = hash;
    this.groups = Array.from(
      { length: groups },
      (_, group) =>
        new CachedBlocks<PrefixNode | Checkpoint>((place) => {
          if (!(place instanceof Node)) return lost?.tail(place as Checkpoint);
          place.blocks[group] = undefined;
          // Dropping its checkpoints must not drop the node twice.
          this.pin(place);
          lost?.block(place, group);
          this.unpin(place);
        }),
    );
  }

  /** Number of nodes, with and without blocks. */
  get nodes(): number {
    return this.#nodes;
  }

  /** Whether the node can be found from its parent; undefined, the root, always is there. */
  hasNode(node: PrefixNode | undefined): boolean {
    return node === undefined || !own(node).isRemoved;
  }

  /** The node with the tokens from `start` on that follows `parent` (undefined: at the beginning of a sequence). */
  find(parent: PrefixNode | undefined, tokens: Int32Array, start: number): PrefixNode | undefined {
    const before = this.#present(parent);
    return this.#find(before, this.#hashOf(before, tokens, start), tokens, start);
  }

  /** The block of a cache group with the contents of a node. */
  block(node: PrefixNode, group: number): number | undefined {
    return own(node).blocks[group];
  }

  /** The node with the tokens from `start` on that follows `parent`, added if it is missing. Pin it or give it a block. */
  child(parent: PrefixNode | undefined, tokens: Int32Array, start: number): PrefixNode {
    const before = this.#present(parent);
    const hash = this.#hashOf(before, tokens, start);
    const known = this.#find(before, hash, tokens, start);
    if (known !== undefined) return known;
    const node = new Node(before, hash, tokens.slice(start, start + this.#blockTokens));
    if (before !== undefined) before.children++;
    node.nextOfHash = this.#byHash.get(hash);
    this.#byHash.set(hash, node);
    this.#nodes++;
    return node;
  }

  /** Gives a node its block of a cache group. The block must be referenced; there must be none yet. */
  addBlock(node: PrefixNode, group: number, block: number): void {
    const place = own(node);
    if (place.blocks[group] !== undefined) throw new RangeError(`block ${block} has a place that is taken`);
    this.groups[group].add(block, place, this.#blockTokens);
    place.blocks[group] = block;
  }

  /** Keeps a node in the tree until it is unpinned. */
  pin(node: PrefixNode | undefined): void {
    if (node !== undefined) own(node).pins++;
  }

  unpin(node: PrefixNode | undefined): void {
    if (node === undefined) return;
    const place = own(node);
    place.pins--;
    this.#dropUnused(place);
  }

  /** Removes a node, so that neither it nor what follows it is found. Its blocks have been removed before. */
  remove(node: PrefixNode): void {
    const place = own(node);
    if (place.isRemoved) return;
    place.isRemoved = true;
    this.#unlink(place);
    this.#dropUnused(place);
  }

  #present(parent: PrefixNode | undefined): Node | undefined {
    if (parent === undefined) return undefined;
    const node = own(parent);
    if (node.isRemoved) throw new RangeError("a node that was removed has no children");
    return node;
  }

  #hashOf(parent: Node | undefined, tokens: Int32Array, start: number): number {
    return this.#hash(parent?.hash ?? this.#seed, tokens, start, start + this.#blockTokens);
  }

  #find(parent: Node | undefined, hash: number, tokens: Int32Array, start: number): Node | undefined {
    let node = this.#byHash.get(hash);
    while (node !== undefined && !(node.parent === parent && isSame(node.tokens, tokens, start)))
      node = node.nextOfHash;
    return node;
  }

  /** Drops a node that nothing needs, and then its parent if that is not needed either. */
  #dropUnused(node: Node): void {
    let unused: Node | undefined = node;
    while (unused !== undefined && unused.children === 0 && unused.pins === 0 && !hasBlock(unused)) {
      if (!unused.isRemoved) this.#unlink(unused);
      unused.isRemoved = true;
      this.#nodes--;
      if (unused.parent !== undefined) unused.parent.children--;
      unused = unused.parent;
    }
  }

  #unlink(node: Node): void {
    const first = this.#byHash.get(node.hash);
    if (first !== node) {
      let before = first;
      while (before !== undefined && before.nextOfHash !== node) before = before.nextOfHash;
      if (before !== undefined) before.nextOfHash = node.nextOfHash;
    } else if (node.nextOfHash === undefined) this.#byHash.delete(node.hash);
    else this.#byHash.set(node.hash, node.nextOfHash);
  }
}

/** Nodes are made here only. */
function own(node: PrefixNode): Node {
  return node as Node;
}

function hasBlock({ blocks }: Node): boolean {
  for (const block of blocks) if (block !== undefined) return true;
  return false;
}

function isSame(known: Int32Array, tokens: Int32Array, start: number): boolean {
  for (let index = 0; index < known.length; index++) if (known[index] !== tokens[start + index]) return false;
  return true;
}

/** Multiplies each token into the hash, and mixes the high bits down before the next one. */
function mixTokens(parentHash: number, tokens: Int32Array, start: number, end: number): number {
  let hash = parentHash ^ 0x5bd1e995;
  for (let index = start; index < end; index++) {
    hash = Math.imul(hash ^ tokens[index], 0x2545f491);
    hash ^= hash >>> 15;
  }
  hash = Math.imul(hash, 0x7feb352d);
  return (hash ^ (hash >>> 16)) >>> 0;
}
