// Finds full blocks by their contents: a tree whose nodes are a parent and the tokens of one block, looked up by
// chained hash. A hash only says where to look; a node is returned if its parent and its tokens are equal, so a
// collision cannot return a wrong block. Unreferenced nodes are kept in least-recently-used order. A table references a
// prefix of a path and releases the last block first, so the least recently used node has no child in the tree.
// Descendants of a removed node can no longer be found, and are evicted in their turn.

/** A block in the prefix index; its path to the root is the prefix that it ends. */
export interface PrefixNode {
  readonly block: number;
  readonly parent: PrefixNode | undefined;
}

/** Hashes the parent's hash and the tokens of one block to 32 bits. */
export type BlockHash = (parentHash: number, tokens: Int32Array, start: number, end: number) => number;

class Node implements PrefixNode {
  isWaiting = false;
  older: Node | undefined;
  newer: Node | undefined;
  nextOfHash: Node | undefined;

  constructor(
    readonly block: number,
    readonly parent: Node | undefined,
    readonly hash: number,
    readonly tokens: Int32Array,
  ) {}
}

/** Finds cached KV blocks by the tokens that they hold. */
export class PrefixIndex {
  readonly #blockTokens: number;
  readonly #hash: BlockHash;
  /** Random for each index, so that prompts cannot be crafted to collide. */
  readonly #seed = Math.floor(Math.random() * 2 ** 32);
  readonly #byHash = new Map<number, Node>();
  readonly #byBlock: (Node | undefined)[] = [];
  #oldest: Node | undefined;
  #newest: Node | undefined;
  #waiting = 0;

  constructor(blockTokens: number, hash: BlockHash = mixTokens) {
    this.#blockTokens = blockTokens;
    this.#hash = hash;
  }

  /** The number of cached blocks that no table references. */
  get cachedBlocks(): number {
    return this.#waiting;
  }

  hasBlock(block: number): boolean {
    return this.#byBlock[block] !== undefined;
  }

  /** Whether the node is still in the index; undefined, the root, always is. */
  hasNode(node: PrefixNode | undefined): boolean {
    return node === undefined || this.#byBlock[node.block] === node;
  }

  /** The block with the tokens from `start` on that follows `parent` (undefined: at the beginning of a sequence). */
  find(parent: PrefixNode | undefined, tokens: Int32Array, start: number): PrefixNode | undefined {
    const own = this.#own(parent);
    return this.#find(own, this.#hashOf(own, tokens, start), tokens, start);
  }

  /** Adds a block, which must be referenced; there must be no equal node yet. */
  add(parent: PrefixNode | undefined, tokens: Int32Array, start: number, block: number): PrefixNode {
    const own = this.#own(parent);
    const node = new Node(block, own, this.#hashOf(own, tokens, start), tokens.slice(start, start + this.#blockTokens));
    if (this.hasBlock(block)) throw new RangeError(`block ${block} is in the index already`);
    node.nextOfHash = this.#byHash.get(node.hash);
    this.#byHash.set(node.hash, node);
    this.#byBlock[block] = node;
    return node;
  }

  /** Marks a block as unreferenced. False if the block is not in the index. */
  release(block: number): boolean {
    const node = this.#byBlock[block];
    if (node === undefined) return false;
    node.isWaiting = true;
    node.older = this.#newest;
    if (this.#newest === undefined) this.#oldest = node;
    else this.#newest.newer = node;
    this.#newest = node;
    this.#waiting++;
    return true;
  }

  /** Marks a cached block as referenced again. */
  retain(block: number): void {
    const node = this.#byBlock[block];
    if (node?.isWaiting === true) this.#unlink(node);
  }

  /** Removes the least recently used unreferenced block. */
  evict(): number | undefined {
    const node = this.#oldest;
    if (node === undefined) return undefined;
    this.#unlink(node);
    this.#byBlock[node.block] = undefined;
    this.#forget(node);
    return node.block;
  }

  /** Removes the node of a referenced block, so that no other sequence finds it. */
  remove(node: PrefixNode): void {
    const own = this.#byBlock[node.block];
    if (own !== node) return;
    if (own.isWaiting) throw new RangeError(`block ${node.block} is not referenced`);
    this.#byBlock[node.block] = undefined;
    this.#forget(own);
  }

  /** The parent's own node; a node that has been evicted cannot be a parent. */
  #own(parent: PrefixNode | undefined): Node | undefined {
    if (parent === undefined) return undefined;
    const node = this.#byBlock[parent.block];
    if (node !== parent) throw new RangeError(`block ${parent.block} is no longer in the index`);
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

  #forget(node: Node): void {
    const first = this.#byHash.get(node.hash);
    if (first !== node) {
      let before = first;
      while (before !== undefined && before.nextOfHash !== node) before = before.nextOfHash;
      if (before !== undefined) before.nextOfHash = node.nextOfHash;
    } else if (node.nextOfHash === undefined) this.#byHash.delete(node.hash);
    else this.#byHash.set(node.hash, node.nextOfHash);
  }

  #unlink(node: Node): void {
    if (node.older === undefined) this.#oldest = node.newer;
    else node.older.newer = node.newer;
    if (node.newer === undefined) this.#newest = node.older;
    else node.newer.older = node.older;
    node.older = node.newer = undefined;
    node.isWaiting = false;
    this.#waiting--;
  }
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
