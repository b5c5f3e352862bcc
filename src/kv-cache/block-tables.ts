// The block tables of one sequence, one for each cache group. Full blocks are committed to the prefix index, from which
// other sequences reuse them; disposal returns all blocks to the pools. Invariants: all groups have blocks for the
// positions that a step writes, and for those that its queries see; committed positions are not written again.

import { firstVisible } from "../graph/cache-groups.js";
import type { BlockPools } from "./block-pools.js";
import { BlockTable, type CopyBlock } from "./block-table.js";
import type { PrefixNode } from "./prefix-index.js";

/** The blocks that hold the keys and values of one sequence. */
export class BlockTables implements Disposable {
  readonly #pools: BlockPools;
  readonly #groups: readonly BlockTable[];
  /** The number of leading blocks that are in the prefix index, and the node of the last one, which is pinned. */
  #committedBlocks = 0;
  #committed: PrefixNode | undefined;

  constructor(pools: BlockPools, groups?: readonly BlockTable[]) {
    this.#pools = pools;
    this.#groups = groups ?? pools.groups.map((pool) => new BlockTable(pool, pools.blockTokens));
  }

  /** The table of each cache group. */
  get groups(): readonly BlockTable[] {
    return this.#groups;
  }

  get committedTokens(): number {
    return this.#committedBlocks * this.#pools.blockTokens;
  }

  /** Allocates blocks until each group holds as many; returns false, and changes nothing, if a pool has too few. */
  reserve(counts: readonly number[]): boolean {
    const missing = this.#groups.map((table, group) => table.missingFor(counts[group]));
    if (!this.#hasAvailable(missing)) return false;
    for (const [group, table] of this.#groups.entries()) table.grow(missing[group]);
    return true;
  }

  /**
   * Makes positions `start` to `end` − 1 writable by copying shared blocks; returns false, and changes nothing, if a
   * pool has too few blocks.
   */
  makeWritable(start: number, end: number, copyBlock: CopyBlock): boolean {
    if (start < this.committedTokens)
      throw new RangeError(`position ${start} is committed and must not be written again`);
    for (const [group, table] of this.#groups.entries())
      if (table.missingForWrites(start, end) > this.#pools.groups[group].availableBlocks) return false;
    for (const [group, table] of this.#groups.entries())
      table.makeWritable(start, end, (from, to) => copyBlock(from, to, group));
    return true;
  }

  /** Makes up to `count` positions from `start` on writable; returns how many, fewer if the pools have too few blocks. */
  makeSomeWritable(start: number, count: number, copyBlock: CopyBlock): number {
    const { blockTokens } = this.#pools;
    let end = start + count;
    while (end > start && !this.makeWritable(start, end, copyBlock))
      end = Math.floor((end - 1) / blockTokens) * blockTokens;
    return Math.max(0, end - start);
  }

  /**
   * Reuses blocks that the prefix index has for these tokens, from the last committed block on, replacing or extending
   * the tables' own: of full attention all, of a window those that the next token sees. The last token is always left to
   * be computed, because its output is needed. Returns the number of tokens that need not be computed.
   */
  reusePrefix(tokens: Int32Array): number {
    const { prefixes, blockTokens } = this.#pools;
    if (prefixes === undefined || !prefixes.hasNode(this.#committed)) return 0;
    const before = this.#committedBlocks;
    const path = this.#longestPrefix(tokens, Math.floor((tokens.length - 1) / blockTokens));
    const end = before + path.length;
    if (path.length === 0) return 0;
    for (const [group, table] of this.#groups.entries()) {
      const first = this.#firstNeeded(group, end);
      // Retained first: blocks that the table gives back may be evicted for others later, but not these.
      const needed = path.slice(Math.max(0, first - before)).map((node) => prefixes.block(node, group));
      table.releaseBefore(Math.min(first, end));
      for (const [index, block] of needed.entries())
        if (block !== undefined) table.share(Math.max(first, before) + index, block);
    }
    this.#moveTo(path[path.length - 1], end);
    return path.length * blockTokens;
  }

  /** Adds the full blocks among the first `written` positions, which hold these tokens, to the prefix index. */
  commit(tokens: Int32Array, written: number): void {
    const { prefixes, blockTokens } = this.#pools;
    if (prefixes === undefined || !prefixes.hasNode(this.#committed)) return;
    const full = Math.floor(written / blockTokens);
    while (this.#committedBlocks < full) {
      const index = this.#committedBlocks;
      const known = prefixes.find(this.#committed, tokens, index * blockTokens);
      // Another table committed this block below a parent that has been withdrawn since; a block has one node, which
      // can no longer be found.
      if (this.#groups.some((table, group) => this.#isElsewhere(table, index, group, known))) return;
      const node = known ?? prefixes.child(this.#committed, tokens, index * blockTokens);
      for (const [group, table] of this.#groups.entries()) {
        if (index < table.firstHeld) continue;
        const block = prefixes.block(node, group);
        if (block === undefined) prefixes.addBlock(node, group, table.blocks[index]);
        // Another sequence computed the same block meanwhile; one copy is enough.
        else table.share(index, block);
      }
      this.#moveTo(node, index + 1);
    }
  }

  /** Releases the blocks that no query from `position` on sees. */
  releaseUnseen(position: number): void {
    for (const [group, reach] of this.#pools.reaches.entries()) {
      const table = this.#groups[group];
      const first = Math.floor(firstVisible(reach, position) / this.#pools.blockTokens);
      table.releaseBefore(Math.min(first, table.blocks.length));
    }
  }

  /**
   * Removes the contents of this sequence from the prefix index because they are wrong, whichever sequence committed
   * them. Other tables keep the blocks that they share, but blocks committed below them can no longer be found either.
   */
  invalidate(): void {
    const { prefixes, groups } = this.#pools;
    for (let node = this.#committed; node !== undefined; node = node.parent) {
      for (const [group, pool] of groups.entries()) {
        const block = prefixes?.block(node, group);
        if (block !== undefined) pool.uncache(block);
      }
      prefixes?.remove(node);
    }
  }

  /** A second sequence that shares all blocks of this one. */
  fork(): BlockTables {
    const twin = new BlockTables(
      this.#pools,
      this.#groups.map((table) => table.fork()),
    );
    this.#pools.prefixes?.pin(this.#committed);
    twin.#committed = this.#committed;
    twin.#committedBlocks = this.#committedBlocks;
    return twin;
  }

  /**
   * Returns the blocks of the positions from `tokens` on to the pools; these positions can be written again later.
   * Returns how many positions are left: none if the next token would see blocks that were released.
   */
  truncate(tokens: number): number {
    const { blockTokens, reaches } = this.#pools;
    // A block that begins at the next token is written anew.
    const isWhole = this.#groups.every(({ firstHeld }, group) => {
      const first = firstVisible(reaches[group], tokens);
      return Math.floor(first / blockTokens) >= firstHeld || (first === tokens && tokens % blockTokens === 0);
    });
    const kept = isWhole ? tokens : 0;
    this.#forgetCommitted(Math.floor(kept / blockTokens));
    for (const table of this.#groups) table.truncate(Math.ceil(kept / blockTokens));
    return kept;
  }

  [Symbol.dispose](): void {
    this.truncate(0);
  }

  #hasAvailable(missing: readonly number[]): boolean {
    return this.#pools.groups.every(({ availableBlocks }, group) => missing[group] <= availableBlocks);
  }

  /** The first block that the queries of a group see when `blocks` blocks are computed. */
  #firstNeeded(group: number, blocks: number): number {
    const { reaches, blockTokens } = this.#pools;
    return Math.floor(firstVisible(reaches[group], blocks * blockTokens) / blockTokens);
  }

  /** Nodes after the committed one, as many as possible so that every group has the blocks that the next token sees. */
  #longestPrefix(tokens: Int32Array, most: number): readonly PrefixNode[] {
    const { prefixes, blockTokens, groups } = this.#pools;
    const path: PrefixNode[] = [];
    /** Of each group, the last block that is missing. */
    const lastMissing = groups.map(() => -1);
    let longest = 0;
    let node = this.#committed;
    for (let index = this.#committedBlocks; index < most; index++) {
      node = prefixes?.find(node, tokens, index * blockTokens);
      if (node === undefined) break;
      path.push(node);
      for (let group = 0; group < groups.length; group++)
        if (prefixes?.block(node, group) === undefined) lastMissing[group] = index;
      if (lastMissing.every((missing, group) => missing < this.#firstNeeded(group, index + 1))) longest = path.length;
    }
    return path.slice(0, longest);
  }

  /** Whether a block of a table is in the prefix index, but not at this node. */
  #isElsewhere(table: BlockTable, index: number, group: number, node: PrefixNode | undefined): boolean {
    const { prefixes, groups } = this.#pools;
    const isKnown = node !== undefined && prefixes?.block(node, group) !== undefined;
    return !isKnown && index >= table.firstHeld && groups[group].isCached(table.blocks[index]);
  }

  #moveTo(node: PrefixNode | undefined, blocks: number): void {
    const before = this.#committed;
    this.#pools.prefixes?.pin(node);
    this.#committed = node;
    this.#committedBlocks = blocks;
    this.#pools.prefixes?.unpin(before);
  }

  /** Marks at most the first `blocks` blocks as committed. */
  #forgetCommitted(blocks: number): void {
    if (this.#committedBlocks <= blocks) return;
    let node = this.#committed;
    for (let index = this.#committedBlocks; index > blocks; index--) node = node?.parent;
    this.#moveTo(node, blocks);
  }
}
