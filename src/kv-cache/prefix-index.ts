// Full blocks by what is in them: a tree whose nodes are a parent and the tokens of one block, found by chained hash.
// A hash only says where to look; a node is returned when its parent is the same node and its tokens are the same, so no
// collision can hand out a wrong block. Nodes that nobody holds wait in the order they were left. Whoever holds a block
// holds those before it, and leaves the last one first, so the oldest of the waiting never has a child in the tree. What
// hangs on a node that was removed is found by nobody, and goes when it is the oldest.

export interface PrefixNode {
  readonly block: number;
  readonly parent: PrefixNode | undefined;
}

/** From the parent's hash and the tokens of one block to 32 bits. */
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

export class PrefixIndex {
  readonly #blockTokens: number;
  readonly #hash: BlockHash;
  /** Drawn anew for each index: nobody can make up prompts that all meet in one place. */
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

  /** Blocks that are held by nobody. */
  get waitingBlocks(): number {
    return this.#waiting;
  }

  knows(block: number): boolean {
    return this.#byBlock[block] !== undefined;
  }

  /** Whether the place is still there; the beginning always is. */
  holds(node: PrefixNode | undefined): boolean {
    return node === undefined || this.#byBlock[node.block] === node;
  }

  /** The block that follows `parent` (undefined: begins a sequence) with the tokens from `start` on. */
  find(parent: PrefixNode | undefined, tokens: Int32Array, start: number): PrefixNode | undefined {
    const own = this.#own(parent);
    return this.#find(own, this.#hashOf(own, tokens, start), tokens, start);
  }

  /** Puts a block in; its place must be free, and somebody must hold it. */
  add(parent: PrefixNode | undefined, tokens: Int32Array, start: number, block: number): PrefixNode {
    const own = this.#own(parent);
    const node = new Node(block, own, this.#hashOf(own, tokens, start), tokens.slice(start, start + this.#blockTokens));
    if (this.knows(block)) throw new RangeError(`block ${block} is in the index already`);
    node.nextOfHash = this.#byHash.get(node.hash);
    this.#byHash.set(node.hash, node);
    this.#byBlock[block] = node;
    return node;
  }

  /** The last holder has left it. False for a block that is not in the index. */
  leave(block: number): boolean {
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

  /** Somebody holds it again. */
  enter(block: number): void {
    const node = this.#byBlock[block];
    if (node?.isWaiting === true) this.#unlink(node);
  }

  /** Forgets the block that was left longest ago. */
  evict(): number | undefined {
    const node = this.#oldest;
    if (node === undefined) return undefined;
    this.#unlink(node);
    this.#byBlock[node.block] = undefined;
    this.#forget(node);
    return node.block;
  }

  /** Takes a block out that somebody holds, so that nobody else finds it. */
  remove(node: PrefixNode): void {
    const own = this.#byBlock[node.block];
    if (own !== node) return;
    if (own.isWaiting) throw new RangeError(`block ${node.block} is held by nobody`);
    this.#byBlock[node.block] = undefined;
    this.#forget(own);
  }

  /** A node that has been evicted has no children: whoever still names it is mistaken. */
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

/** Each token is multiplied in, and high bits come down to where the next one meets them. */
function mixTokens(parentHash: number, tokens: Int32Array, start: number, end: number): number {
  let hash = parentHash ^ 0x5bd1e995;
  for (let index = start; index < end; index++) {
    hash = Math.imul(hash ^ tokens[index], 0x2545f491);
    hash ^= hash >>> 15;
  }
  hash = Math.imul(hash, 0x7feb352d);
  return (hash ^ (hash >>> 16)) >>> 0;
}
