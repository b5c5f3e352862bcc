// Synthetic steps for verifying a captured graph: as many rows as it was captured for if memory allows, deep in their
// sequences, in blocks and state slots of a small KV cache of their own. Each sequence grows every round, so that every round has new
// inputs and attends to what earlier rounds have stored. Pure data.

import type { OutputRequest, StepInput } from "../../contract.js";
import type { LaunchSize } from "../lowering/launch.js";
import { SPLIT_POSITIONS } from "../memory/kv-layout.js";

/** Number of successive steps: the first may read what the capture left in memory, later ones what other steps left. */
export const TRIAL_ROUNDS = 3;
const TRIAL_CANDIDATES = 8;
/** The block that all sequences read and none writes. */
const SHARED_BLOCK = 0;

interface TrialLimits {
  readonly vocabularySize: number;
  readonly contextTokens: number;
  readonly blockTokens: number;
  /** Whether each sequence has all of its blocks to itself, as most have; otherwise they share those that none writes. */
  readonly separate?: boolean;
}

/** Synthetic steps that fit a captured size. */
export class TrialSteps {
  readonly sequences: number;
  /** Tokens of each sequence in each round. */
  readonly run: number;
  /** Number of blocks of the KV cache. */
  readonly blocks: number;
  readonly #limits: TrialLimits;
  readonly #size: LaunchSize;
  /** Position at which the first round starts. */
  readonly #first: number;
  readonly #end: number;
  /** Number of blocks that one sequence writes. */
  readonly #ownBlocks: number;

  /** `rows` is the maximum number of tokens of a step. */
  constructor(size: LaunchSize, rows: number, limits: TrialLimits) {
    const { contextTokens, blockTokens } = limits;
    this.#limits = limits;
    this.#size = size;
    this.#end = Math.min(contextTokens, Math.max(1, size.splits) * SPLIT_POSITIONS);
    const isDecoding = size.longestRun === 1;
    this.run = isDecoding ? 1 : Math.min(rows, this.#end);
    this.sequences = isDecoding ? rows : 1;
    const wanted = Math.floor((this.#end - TRIAL_ROUNDS * this.run) / blockTokens) * blockTokens;
    this.#first = Math.max(0, Math.min(wanted, this.#end - this.run));
    this.#ownBlocks = Math.floor((this.#end - 1) / blockTokens) - this.#firstBlock + 1;
    this.blocks = 1 + this.sequences * this.#ownBlocks;
  }

  get tokens(): number {
    return this.sequences * this.run;
  }

  /** Number of entries of all block tables. */
  get tableEntries(): number {
    return this.sequences * (this.#firstBlock + this.#ownBlocks);
  }

  get outputs(): number {
    return Math.min(this.#size.outputs, this.tokens);
  }

  get scored(): number {
    return Math.min(this.#size.scored, this.outputs);
  }

  /** The step of one round. */
  step(round: number): StepInput {
    const { vocabularySize } = this.#limits;
    const start = this.#first + ((round * this.run) % (this.#end - this.#first - this.run + 1));
    return {
      tokens: Int32Array.from({ length: this.tokens }, (_, row) => (1 + row * 7919 + round * 104_729) % vocabularySize),
      positions: Int32Array.from({ length: this.tokens }, (_, row) => start + (row % this.run)),
      sequenceOffsets: Int32Array.from({ length: this.sequences + 1 }, (_, sequence) => sequence * this.run),
      blockTables: Array.from({ length: this.sequences }, (_, sequence) => this.#table(sequence)),
      outputs: Array.from({ length: this.outputs }, (_, index) => this.#output(index)),
      stateReads: Int32Array.from({ length: this.sequences }, (_, sequence) => sequence),
      stateWrites: Int32Array.from({ length: this.tokens }, (_, row) =>
        row % this.run === this.run - 1 ? Math.floor(row / this.run) : -1,
      ),
    };
  }

  /** The first block that no other sequence has. */
  get #firstBlock(): number {
    if (this.#limits.separate === true) return 0;
    return Math.floor(this.#first / this.#limits.blockTokens);
  }

  #table(sequence: number): Int32Array {
    const own = 1 + sequence * this.#ownBlocks;
    return Int32Array.from({ length: this.#firstBlock + this.#ownBlocks }, (_, index) =>
      index < this.#firstBlock ? SHARED_BLOCK : own + index - this.#firstBlock,
    );
  }

  /** Outputs are the last rows; the scored ones come first. */
  #output(index: number): OutputRequest {
    const row = this.tokens - this.outputs + index;
    const count = Math.min(TRIAL_CANDIDATES, this.#limits.vocabularySize);
    return { row, want: index < this.scored ? { kind: "candidates", count } : { kind: "hidden" } };
  }
}
