// The block tables of one sequence, one for each cache group, and its recurrent states. Full blocks are committed to the
// prefix index, from which other sequences reuse them; disposal returns all blocks to the pools. Invariants: all groups
// have blocks for the positions that a step writes, and for those that its queries see; committed positions are not
// written again; a prefix of a model with recurrent layers is reused up to a checkpoint.

import { firstVisible } from "../graph/cache-groups.js";
import type { BlockPools } from "./block-pools.js";
import { BlockTable, type CopyBlock } from "./block-table.js";
import type { Checkpoint } from "./checkpoints.js";
import type { PrefixNode } from "./prefix-index.js";
import { SequenceStates } from "./sequence-states.js";

/** Makes the states after `end` tokens writable; false if no slot is left. */
type PrepareStates = (states: SequenceStates, end: number) => boolean;

const forNextStep: PrepareStates = (states, end) => states.makeWritable(end);

/** A prefix that can be reused. */
interface ReusablePrefix {
  /** Its nodes after the committed one. */
  readonly path: readonly PrefixNode[];
  readonly tokens: number;
  readonly checkpoint: Checkpoint | undefined;
}

/** The blocks that hold the keys and values of one sequence. */
export class BlockTables implements Disposable {
  readonly #pools: BlockPools;
  readonly #groups: readonly BlockTable[];
  /** The number of leading blocks that are in the prefix index, and the node of the last one, which is pinned. */
  #committedBlocks = 0;
  #committed: PrefixNode | undefined;
  /** Undefined if the model has no recurrent layers. */
  readonly states: SequenceStates | undefined;

  constructor(pools: BlockPools, groups?: readonly BlockTable[], states?: SequenceStates) {
    this.#pools = pools;
    this.#groups = groups ?? pools.groups.map((pool) => new BlockTable(pool, pools.blockTokens));
    this.states = states ?? (pools.states === undefined ? undefined : new SequenceStates(pools.states));
  }

  /** The table of each cache group. */
  get groups(): readonly BlockTable[] {
    return this.#groups;
  }

  get committedTokens(): number {
    return this.#committedBlocks * this.#pools.blockTokens;
  }

  /**
   * Allocates blocks until each group holds as many, and a state slot; returns false, and changes nothing, if a pool has
   * too few.
   */
  reserve(counts: readonly number[]): boolean {
    const missing = this.#groups.map((table, group) => table.missingFor(counts[group]));
    if (!this.#hasAvailable(missing) || this.states?.reserve() === false) return false;
    for (const [group, table] of this.#groups.entries()) table.grow(missing[group]);
    return true;
  }

  /**
   * Makes positions `start` to `end` − 1 writable by copying shared blocks; returns false, and changes nothing that the
   * sequence needs, if a pool has too few blocks. `prepare` makes the recurrent states writable.
   */
  makeWritable(start: number, end: number, copyBlock: CopyBlock, prepare: PrepareStates = forNextStep): boolean {
    if (start < this.committedTokens)
      throw new RangeError(`position ${start} is committed and must not be written again`);
    for (const [group, table] of this.#groups.entries()) {
      const isShort = (): boolean => table.missingForWrites(start, end) > this.#pools.groups[group].availableBlocks;
      if (!isShort()) continue;
      // A sequence goes before the checkpoints in the block that it continues.
      table.unshare(start);
      if (isShort()) return false;
    }
    if (this.states !== undefined && !prepare(this.states, end)) return false;
    for (const [group, table] of this.#groups.entries())
      table.makeWritable(start, end, (from, to) => copyBlock(from, to, group));
    return true;
  }

  /** How many of the `wanted` positions after `start` can be made writable so that each pool keeps `left` blocks. */
  roomAfter(start: number, wanted: number, left: number): number {
    const { blockTokens } = this.#pools;
    let end = start + 1 + wanted;
    while (end > start + 1 && this.#spareBlocksAfter(start, end) < left)
      end = Math.floor((end - 1) / blockTokens) * blockTokens;
    return Math.max(0, end - start - 1);
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
   * Reuses blocks that the prefix index has for these tokens, of which `computed` are computed, replacing or extending
   * the tables' own: of full attention all, of a window those that the next token sees. A model with recurrent layers
   * continues from the longest checkpoint. The last token is always left to be computed, because its output is needed.
   * Returns the number of tokens that need not be computed.
   */
  reusePrefix(tokens: Int32Array, computed = this.committedTokens): number {
    const { prefixes } = this.#pools;
    if (prefixes === undefined || !prefixes.hasNode(this.#committed) || computed + 1 >= tokens.length) return 0;
    if (this.states === undefined && computed !== this.committedTokens) return 0;
    const before = this.#committedBlocks;
    const found = this.#longestPrefix(tokens, computed);
    if (found === undefined) return 0;
    const { path, checkpoint } = found;
    const end = before + path.length;
    for (const [group, table] of this.#groups.entries()) {
      const first = this.#firstNeeded(group, found.tokens);
      // Retained first: blocks that the table gives back may be evicted for others later, but not these.
      const needed = path.slice(Math.max(0, first - before)).map((node) => prefixes.block(node, group));
      const tail = checkpoint?.blocks[group];
      if (tail !== undefined) needed.push(tail);
      table.releaseBefore(Math.min(first, end));
      for (const [index, block] of needed.entries())
        if (block !== undefined) table.share(Math.max(first, before) + index, block);
    }
    if (checkpoint !== undefined) this.states?.share(checkpoint.slot, found.tokens);
    if (path.length > 0) this.#moveTo(path[path.length - 1], end);
    return found.tokens - computed;
  }

  /**
   * Records that the first `written` positions hold these tokens: adds the full blocks among them to the prefix index,
   * and checkpoints for the states that the step wrote before its last token.
   */
  commit(tokens: Int32Array, written: number): void {
    const writes = this.states?.advance(written) ?? [];
    this.#commitBlocks(tokens, written);
    for (const write of writes) {
      if (write.isCheckpoint) this.#addCheckpoint(tokens, write.tokens, write.slot);
      this.#pools.states?.release([write.slot]);
    }
  }

  /**
   * Keeps the present recurrent states, those after the first `written` of these tokens, as a checkpoint. Returns it if
   * it was added.
   */
  checkpoint(tokens: Int32Array, written: number): Checkpoint | undefined {
    if (this.states === undefined || this.states.slot < 0 || this.states.tokens !== written) return undefined;
    return this.#addCheckpoint(tokens, written, this.states.slot);
  }

  /** Marks the checkpoint after the first `count` of these tokens, if there is one, as used most recently. */
  useCheckpoint(tokens: Int32Array, count: number): void {
    const { checkpoints, blockTokens } = this.#pools;
    const full = Math.floor(count / blockTokens);
    if (full <= this.#committedBlocks) checkpoints?.use(this.#nodeOf(full), tokens.subarray(full * blockTokens, count));
  }

  #addCheckpoint(tokens: Int32Array, written: number, slot: number): Checkpoint | undefined {
    const { checkpoints, prefixes, blockTokens, states } = this.#pools;
    const full = Math.floor(written / blockTokens);
    const node = this.#nodeOf(full);
    const isFound = full <= this.#committedBlocks && prefixes?.hasNode(node) === true;
    if (checkpoints === undefined || !isFound || states?.isCached(slot) === true) return undefined;
    const tail = tokens.slice(full * blockTokens, written);
    const blocks = tail.length === 0 ? [] : this.#groups.map((table) => table.blocks[full]);
    const checkpoint = { node, tail, blocks, slot };
    return checkpoints.add(checkpoint) ? checkpoint : undefined;
  }

  #commitBlocks(tokens: Int32Array, written: number): void {
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
   * Removes the contents of this sequence, which has these tokens, from the prefix index because they are wrong, whichever
   * sequence committed them. Other tables keep the blocks that they share, but blocks committed below them can no longer
   * be found either.
   */
  invalidate(tokens: Int32Array): void {
    const { prefixes, groups, checkpoints } = this.#pools;
    const writes = this.states?.advance() ?? [];
    this.#pools.states?.release(writes.map(({ slot }) => slot));
    checkpoints?.invalidate(undefined, tokens);
    for (let node = this.#committed; node !== undefined; node = node.parent) {
      for (const [group, pool] of groups.entries()) {
        const block = prefixes?.block(node, group);
        if (block !== undefined) pool.uncache(block);
      }
      checkpoints?.invalidate(node, tokens);
      prefixes?.remove(node);
    }
  }

  /** A second sequence that shares all blocks of this one. */
  fork(): BlockTables {
    const twin = new BlockTables(
      this.#pools,
      this.#groups.map((table) => table.fork()),
      this.states?.fork(),
    );
    this.#pools.prefixes?.pin(this.#committed);
    twin.#committed = this.#committed;
    twin.#committedBlocks = this.#committedBlocks;
    return twin;
  }

  /**
   * Returns the blocks of the positions from `tokens` on to the pools; these positions can be written again later.
   * Returns how many positions are left: none if the next token would see blocks that were released, or if the recurrent
   * states are those after other tokens.
   */
  truncate(tokens: number): number {
    const { blockTokens, reaches } = this.#pools;
    // A block that begins at the next token is written anew.
    const isWhole = this.#groups.every(({ firstHeld }, group) => {
      const first = firstVisible(reaches[group], tokens);
      return Math.floor(first / blockTokens) >= firstHeld || (first === tokens && tokens % blockTokens === 0);
    });
    const kept = isWhole && (this.states === undefined || this.states.tokens === tokens) ? tokens : 0;
    if (kept === 0) this.states?.[Symbol.dispose]();
    this.#forgetCommitted(Math.floor(kept / blockTokens));
    for (const table of this.#groups) table.truncate(Math.ceil(kept / blockTokens));
    return kept;
  }

  [Symbol.dispose](): void {
    this.truncate(0);
  }

  /** Blocks of the scarcest pool that are left if these positions are made writable; negative if there are too few. */
  #spareBlocksAfter(start: number, end: number): number {
    const spare = this.#groups.map(
      (table, group) => this.#pools.groups[group].availableBlocks - table.missingForWrites(start, end),
    );
    return Math.min(...spare);
  }

  #hasAvailable(missing: readonly number[]): boolean {
    return this.#pools.groups.every(({ availableBlocks }, group) => missing[group] <= availableBlocks);
  }

  /** The first block that the queries of a group see when `tokens` tokens are computed. */
  #firstNeeded(group: number, tokens: number): number {
    const { reaches, blockTokens } = this.#pools;
    return Math.floor(firstVisible(reaches[group], tokens) / blockTokens);
  }

  /**
   * The longest prefix beyond the `computed` tokens of which every group has the blocks that the next token sees, and
   * which ends with a checkpoint if there are recurrent layers.
   */
  #longestPrefix(tokens: Int32Array, computed: number): ReusablePrefix | undefined {
    const { prefixes, checkpoints, blockTokens, groups } = this.#pools;
    const most = tokens.length - 1;
    const path: PrefixNode[] = [];
    /** Of each group, the last block that is missing. */
    const lastMissing = groups.map(() => -1);
    let longest: (Omit<ReusablePrefix, "path"> & { readonly blocks: number }) | undefined;
    let node = this.#committed;
    for (let index = this.#committedBlocks; ; index++) {
      const start = index * blockTokens;
      const checkpoint = checkpoints?.longest(node, tokens, start, most);
      const end = start + (checkpoint?.tail.length ?? 0);
      const isEnd = end > computed && (this.states === undefined || checkpoint !== undefined);
      if (isEnd && lastMissing.every((missing, group) => missing < this.#firstNeeded(group, end)))
        longest = { tokens: end, checkpoint, blocks: path.length };
      if (start + blockTokens > most) break;
      node = prefixes?.find(node, tokens, start);
      if (node === undefined) break;
      path.push(node);
      for (let group = 0; group < groups.length; group++)
        if (prefixes?.block(node, group) === undefined) lastMissing[group] = index;
    }
    return longest === undefined ? undefined : { ...longest, path: path.slice(0, longest.blocks) };
  }

  /** Whether a block of a table is in the prefix index, but not at this node. */
  #isElsewhere(table: BlockTable, index: number, group: number, node: PrefixNode | undefined): boolean {
    const { prefixes, groups } = this.#pools;
    const isKnown = node !== undefined && prefixes?.block(node, group) !== undefined;
    if (isKnown || index < table.firstHeld) return false;
    return groups[group].cachedPositions(table.blocks[index]) === this.#pools.blockTokens;
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
    if (this.#committedBlocks > blocks) this.#moveTo(this.#nodeOf(blocks), blocks);
  }

  /** The node of the last of the first `blocks` blocks, of those that are committed. */
  #nodeOf(blocks: number): PrefixNode | undefined {
    let node = this.#committed;
    for (let index = this.#committedBlocks; index > blocks; index--) node = node?.parent;
    return node;
  }
}
