// One sequence as the scheduler sees it: its tokens, how many are computed, its block tables and its queue position.
// Invariant: `computed` positions are in the cache; a sequence that is not running holds no block.

import type { BlockPools } from "../kv-cache/block-pools.js";
import { BlockTables } from "../kv-cache/block-tables.js";
import type { CopyBlock } from "../kv-cache/block-table.js";
import type { Checkpoint } from "../kv-cache/checkpoints.js";
import { CheckpointPositions } from "./checkpoint-positions.js";

const FIRST_CAPACITY = 64;
/** Steps that one unit of priority is worth: a sequence precedes those that arrived up to this many steps earlier. */
const AGEING_STEPS = 512;

/** A sequence to schedule. */
export interface SequenceOptions {
  readonly tokens: Int32Array;
  /** Maximum number of tokens of the sequence. */
  readonly capacityTokens: number;
  /** Sequences of a higher priority go first, but not before those that have waited much longer. */
  readonly priority: number;
  /** Number of sequences that will result from forking, itself included; slots are reserved for all of them. */
  readonly slots: number;
  /**
   * Scores a given text instead of extending it: this token and every later one has an output row, and no prefix is
   * taken from the cache. If undefined, only the last token has an output row.
   */
  readonly firstOutput?: number;
  /**
   * For models with recurrent layers: numbers of leading tokens after which the states are kept for later sequences,
   * because those are expected to differ from there on; by default the end of the prompt.
   */
  readonly checkpoints?: readonly number[];
}

const NO_DRAFT = new Int32Array();

type SequenceState = "queued" | "running" | "ended";

/**
 * The order of a sequence among others. It never changes, so that a sequence that has waited long enough is not
 * overtaken any more.
 */
interface QueuePosition {
  readonly priority: number;
  /** The step in which the sequence was submitted, less the worth of its priority; the lowest goes first. */
  readonly turn: number;
  /** Orders sequences of the same turn: the earliest goes first. */
  readonly arrival: number;
  /** Orders sequences that were forked from one another. */
  readonly fork: number;
}

/** A sequence with its tokens, block tables and state. */
export class ScheduledSequence {
  readonly queuePosition: QueuePosition;
  readonly capacityTokens: number;
  readonly promptTokens: number;
  /** The first token with an output row if the sequence is scored; undefined if it is extended. */
  readonly firstOutput: number | undefined;
  state: SequenceState = "queued";
  slots: number;
  tables: BlockTables;
  computed = 0;
  /** False while the mask of the next output is unknown; every token before it can be computed. */
  isReady = true;
  /** Tokens that may follow and are verified with the last token; part of the text only once they are accepted. */
  draft: Int32Array = NO_DRAFT;
  /** Prompt tokens that were found in the prefix cache. */
  cachedTokens = 0;
  preemptions = 0;
  /** The last step that computed a part of the sequence, or the step before it was admitted. */
  servedStep = 0;
  /** Whether the running step computes a part of the sequence, rather than one that is queued behind it. */
  isInStep = false;
  /** Whether a step that is queued behind the running one has its next token, so that no draft can begin there. */
  isQueuedEarly = false;
  /** Where recurrent states are kept; undefined if there are none, or if the text is scored. */
  readonly checkpoints: CheckpointPositions | undefined;
  readonly #pools: BlockPools;
  #tokens: Int32Array;
  #length: number;
  #keptForNow: Checkpoint | undefined;

  constructor(options: SequenceOptions, place: QueuePosition, pools: BlockPools) {
    const { tokens, capacityTokens, slots, firstOutput, checkpoints: hints = [] } = options;
    const { blockTokens } = pools;
    this.queuePosition = place;
    this.capacityTokens = capacityTokens;
    this.promptTokens = tokens.length;
    this.slots = slots;
    this.firstOutput = firstOutput;
    this.#pools = pools;
    this.tables = new BlockTables(pools);
    if (pools.checkpoints !== undefined && firstOutput === undefined)
      this.checkpoints = new CheckpointPositions({ promptTokens: tokens.length, blockTokens, hints });
    this.#tokens = Int32Array.from(tokens);
    this.#length = tokens.length;
  }

  get length(): number {
    return this.#length;
  }

  get tokens(): Int32Array {
    return this.#tokens.subarray(0, this.#length);
  }

  /** Number of tokens that are known and not computed yet. */
  get remaining(): number {
    return this.#length - this.computed;
  }

  /** Whether each step computes one token, and a draft if there is one, and produces at least one. */
  get isDecoding(): boolean {
    return this.remaining === 1 && this.firstOutput === undefined;
  }

  /** Output rows among the next `count` tokens to compute. */
  outputsOf(count: number): number {
    if (this.firstOutput === undefined) return count === this.remaining ? 1 : 0;
    return Math.max(0, Math.min(count, this.computed + count - this.firstOutput));
  }

  push(token: number): void {
    if (this.#length >= this.capacityTokens)
      throw new RangeError(`a sequence of ${this.capacityTokens} tokens is full`);
    if (this.#length === this.#tokens.length) {
      const larger = new Int32Array(Math.min(this.capacityTokens, Math.max(FIRST_CAPACITY, this.#length * 2)));
      larger.set(this.#tokens);
      this.#tokens = larger;
    }
    this.#tokens[this.#length++] = token;
    this.draft = NO_DRAFT;
  }

  /** Takes blocks for the next tokens from the prefix cache. */
  adopt(): void {
    if (this.firstOutput !== undefined) return;
    const gained = this.tables.reusePrefix(this.tokens, this.computed);
    // A prefix that was lost by preemption and found again was computed once.
    if (this.preemptions === 0) this.cachedTokens += Math.max(0, Math.min(gained, this.promptTokens - this.computed));
    this.computed += gained;
    // Requests that follow may go back further than this one.
    if (gained > 0)
      for (const tokens of this.checkpoints?.hints ?? [])
        if (tokens <= this.computed) this.tables.useCheckpoint(this.tokens, tokens);
  }

  /**
   * A step computes `count` of its tokens: it writes the states that are kept as checkpoints, as far as slots that nothing
   * else needs suffice.
   */
  joinStep(start: number, count: number): void {
    this.isInStep = true;
    for (const tokens of this.checkpoints?.between(start, start + count) ?? [])
      if (this.tables.states?.alsoAfter(tokens) === false) break;
  }

  /**
   * Makes a position writable for a step that is queued while the step before it runs. What the text ends with is not
   * known then, so that the states between the two are left as they are if a checkpoint may be made of them.
   */
  makeFollowingWritable(position: number, copyBlock: CopyBlock): boolean {
    const keepsBetween = this.checkpoints !== undefined;
    return this.tables.makeWritable(position, position + 1, copyBlock, (states, end) =>
      states.makeFollowing(end, keepsBetween),
    );
  }

  /** Keeps the present recurrent states in the prefix cache. */
  keepStates(): void {
    if (this.checkpoints !== undefined) this.tables.checkpoint(this.tokens, this.computed);
  }

  /** Keeps the present recurrent states instead of those that it kept this way before, if most slots are not in use. */
  keepStatesForNow(): void {
    const { checkpoints, states } = this.#pools;
    if (this.#keptForNow !== undefined) checkpoints?.drop(this.#keptForNow);
    const hasSlots = states !== undefined && states.availableBlocks * 2 > states.blocks;
    this.#keptForNow = hasSlots ? this.tables.checkpoint(this.tokens, this.computed) : undefined;
  }

  /** Releases its blocks; what is not in the prefix cache by then has to be computed again. */
  release(): void {
    this.tables[Symbol.dispose]();
    this.computed = 0;
  }
}

/** The queue position of a sequence that is submitted in a step. */
export function queuePositionAt(step: number, priority: number, arrival: number): QueuePosition {
  return { priority, turn: step - priority * AGEING_STEPS, arrival, fork: 0 };
}

/** Negative if `left` goes first. */
export function compareQueuePositions(left: QueuePosition, right: QueuePosition): number {
  return left.turn - right.turn || left.arrival - right.arrival || left.fork - right.fork;
}
