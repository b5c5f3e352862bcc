// Drafts with a smaller model of the same vocabulary, which decodes greedily ahead of the target. Its KV cache follows
// the target's texts: what was drafted and rejected is cut back. Recurrent states cannot be, so that a draft model with
// such layers drafts in a fork of its text, and computes what was accepted again with the next call. All sequences that
// wait share its steps. Prompts are prefilled a chunk per call, so that the target never waits for a whole prompt.

import type { KvCache, OutputRow, RunOptions, StepInput } from "../backends/contract.js";
import type { BlockPools } from "../kv-cache/block-pools.js";
import { BlockTables } from "../kv-cache/block-tables.js";
import type { BatchDrafter, DraftRequest } from "./drafter.js";

/** A draft ends before a token that the draft model itself finds less likely than this. */
const LEAST_LIKELY = 0.3;

/** The draft model: computes steps over a cache that grows with its sequences. */
export interface DraftModel extends AsyncDisposable {
  readonly vocabularySize: number;
  readonly contextTokens: number;
  /** Maximum tokens of a step, and sequences in it. */
  readonly stepTokens: number;
  readonly sequences: number;
  readonly pools: BlockPools;
  readonly kvCache: KvCache;
  /** Grows the cache to hold texts of these lengths together, if memory allows; never loses contents. */
  makeRoom(lengths: readonly number[]): void;
  step(step: StepInput, kvCache: KvCache, options: RunOptions): Promise<readonly OutputRow[]>;
}

/** A sequence in the draft model's cache. */
interface DraftState {
  readonly tables: BlockTables;
  /** The text when it was last drafted for. */
  text: Int32Array;
  /** Positions that were computed from tokens of the text, and the drafted tokens that were computed after them. */
  computed: number;
  drafted: number[];
}

/** A sequence in one round of drafting. */
interface Round {
  readonly state: DraftState;
  readonly request: DraftRequest;
  readonly draft: number[];
  /** What the next tokens are written to: those of the text, or a fork of them. */
  tables: BlockTables;
  /** Tokens to compute next. */
  pending: Int32Array;
}

/** Proposes what a smaller model would write. */
export class ModelDrafter implements BatchDrafter {
  readonly #model: DraftModel;
  readonly #targetVocabulary: number;
  readonly #states = new Map<object, DraftState>();
  #isDrafting = false;
  /** Sequences that ended while a step may have been writing their blocks. */
  #ended: object[] = [];

  constructor(model: DraftModel, targetVocabulary: number) {
    this.#model = model;
    this.#targetVocabulary = targetVocabulary;
  }

  async draft(requests: readonly DraftRequest[], signal: AbortSignal): Promise<readonly (Int32Array | undefined)[]> {
    this.#isDrafting = true;
    try {
      return await this.#draft(requests, signal);
    } finally {
      this.#isDrafting = false;
      for (const sequence of this.#ended.splice(0)) this.release(sequence);
    }
  }

  async #draft(requests: readonly DraftRequest[], signal: AbortSignal): Promise<readonly (Int32Array | undefined)[]> {
    this.#model.makeRoom(requests.map(({ tokens, most }) => tokens.length + most));
    const rounds = requests.map((request) => this.#begin(request));
    let active = rounds.filter((round) => round !== undefined).slice(0, this.#model.sequences);
    try {
      while (active.length > 0) {
        const computed = await this.#compute(active, signal);
        active = computed.filter((round) => this.#continues(round));
      }
    } finally {
      for (const round of rounds) if (round !== undefined) endFork(round);
    }
    return rounds.map((round) =>
      round === undefined || isUnfinished(round) ? undefined : Int32Array.from(round.draft),
    );
  }

  release(sequence: object): void {
    if (this.#isDrafting) {
      this.#ended.push(sequence);
      return;
    }
    const state = this.#states.get(sequence);
    if (state === undefined) return;
    // A later text may continue this one.
    state.tables.checkpoint(state.text, state.computed);
    state.tables[Symbol.dispose]();
    this.#states.delete(sequence);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const sequence of this.#states.keys()) this.release(sequence);
    await this.#model[Symbol.asyncDispose]();
  }

  /** Cuts the sequence back to what agrees with its text; undefined if it cannot be drafted. */
  #begin(request: DraftRequest): Round | undefined {
    const { sequence, tokens, most } = request;
    const { vocabularySize, contextTokens, pools } = this.#model;
    if (tokens.length + most > contextTokens || most === 0) return undefined;
    let state = this.#states.get(sequence);
    if (state === undefined) {
      state = { tables: new BlockTables(pools), text: tokens, computed: 0, drafted: [] };
      this.#states.set(sequence, state);
    }
    state.text = tokens;
    this.#cutBack(state, tokens);
    if (state.computed === state.tables.committedTokens) state.computed += state.tables.reusePrefix(tokens);
    const pending = tokens.slice(state.computed);
    // A larger vocabulary has tokens that the draft model cannot read.
    if (pending.some((token) => token >= vocabularySize)) return undefined;
    return { state, request, draft: [], tables: state.tables, pending };
  }

  #cutBack(state: DraftState, tokens: Int32Array): void {
    const { drafted } = state;
    let agreed = 0;
    // The last token of the text has to be computed again: its row is the first of the draft.
    while (agreed < drafted.length && state.computed + agreed < tokens.length - 1) {
      if (drafted[agreed] !== tokens[state.computed + agreed]) break;
      agreed++;
    }
    const kept = Math.min(state.computed + agreed, tokens.length - 1);
    state.computed = drafted.length === 0 && kept === state.computed ? kept : state.tables.truncate(kept);
    state.drafted = [];
  }

  /** Runs one step over as many tokens as it holds; returns the rounds whose next token is known. */
  async #compute(rounds: readonly Round[], signal: AbortSignal): Promise<readonly Round[]> {
    const slices: { readonly round: Round; readonly start: number; readonly tokens: Int32Array }[] = [];
    let spare = this.#model.stepTokens;
    for (const round of rounds) {
      const start = round.state.computed + round.state.drafted.length;
      const wanted = Math.min(round.pending.length, spare);
      const count = round.tables.makeSomeWritable(start, wanted, this.#copyBlock);
      if (count === 0) continue;
      slices.push({ round, start, tokens: round.pending.subarray(0, count) });
      spare -= count;
    }
    if (slices.length === 0) return [];
    const rows = await this.#model.step(this.#pack(slices), this.#model.kvCache, { signal });
    const known: Round[] = [];
    for (const { round, tokens } of slices) {
      this.#advance(round, tokens);
      if (round.pending.length > 0) continue;
      const row = rows[known.length];
      known.push(round);
      const token = likelyToken(row);
      round.pending = token === undefined || token >= this.#targetVocabulary ? new Int32Array() : Int32Array.of(token);
    }
    return known;
  }

  readonly #copyBlock = (from: number, to: number, group: number): void =>
    this.#model.kvCache.copyBlocks(Int32Array.of(from, to), group);

  #advance(round: Round, tokens: Int32Array): void {
    const { state, request } = round;
    const isText = round.draft.length === 0;
    if (isText) {
      state.computed += tokens.length;
      state.tables.commit(request.tokens, state.computed);
    } else {
      state.drafted.push(...tokens);
      // A fork is not committed, but goes on from its states.
      if (round.tables !== state.tables) round.tables.states?.advance();
    }
    round.pending = round.pending.subarray(tokens.length);
  }

  /** Adds the token that a row gave; false if the draft ends. */
  #continues(round: Round): boolean {
    const { state, draft, pending, request } = round;
    if (pending.length === 0) return false;
    draft.push(pending[0]);
    if (draft.length >= request.most) return false;
    if (state.tables.states !== undefined && round.tables === state.tables) round.tables = state.tables.fork();
    return true;
  }

  #pack(slices: readonly { readonly round: Round; readonly start: number; readonly tokens: Int32Array }[]): StepInput {
    const offsets = Int32Array.from([0, ...slices.map(({ tokens }) => tokens.length)]);
    for (let index = 1; index < offsets.length; index++) offsets[index] += offsets[index - 1];
    const tokens = new Int32Array(offsets[slices.length]);
    const positions = new Int32Array(tokens.length);
    const outputs: StepInput["outputs"][number][] = [];
    for (const [index, slice] of slices.entries()) {
      tokens.set(slice.tokens, offsets[index]);
      for (let token = 0; token < slice.tokens.length; token++) positions[offsets[index] + token] = slice.start + token;
      const isWhole = slice.tokens.length === slice.round.pending.length;
      if (isWhole) outputs.push({ row: offsets[index + 1] - 1, want: { kind: "candidates", count: 1 } });
    }
    const groups = this.#model.pools.groups.map((_, group) => group);
    const blockTables = groups.flatMap((group) => slices.map(({ round }) => round.tables.groups[group].blocks));
    const step = { tokens, positions, sequenceOffsets: offsets, blockTables, outputs };
    if (this.#model.pools.states === undefined) return step;
    const stateWrites = new Int32Array(tokens.length);
    for (const [index, { round, start }] of slices.entries())
      round.tables.states?.fillWrites(stateWrites.subarray(offsets[index], offsets[index + 1]), start);
    const stateReads = Int32Array.from(slices, ({ round }) => round.tables.states?.slot ?? -1);
    return { ...step, stateReads, stateWrites };
  }
}

/** Gives back what a draft wrote apart from its text: it is as if nothing had been drafted. */
function endFork(round: Round): void {
  const { state, tables } = round;
  if (tables === state.tables) return;
  tables[Symbol.dispose]();
  round.tables = state.tables;
  state.drafted = [];
}

/** Whether tokens of the text are left to be computed before anything can be drafted. */
function isUnfinished({ draft, pending }: Round): boolean {
  return draft.length === 0 && pending.length > 0;
}

/** The best token of a row, if the draft model is confident enough. */
function likelyToken(row: OutputRow | undefined): number | undefined {
  if (row?.kind !== "candidates" || row.ids.length === 0) return undefined;
  return Math.exp(row.logits[0] - row.logSum) < LEAST_LIKELY ? undefined : row.ids[0];
}
