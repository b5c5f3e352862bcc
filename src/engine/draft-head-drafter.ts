// Drafts with the model's own draft head (MTP), in steps of the head between two steps of the model. The head reads the
// hidden state before a sequence's last token from the sequence's state slot, and leaves its own in a slot that is held
// for the time of the draft. It writes keys and values of positions that the model's next step writes again.

import type { KvCache, OutputRow, StepInput } from "../backends/contract.js";
import type { BlockPools } from "../kv-cache/block-pools.js";
import type { DraftHeadPlan } from "../plan/draft-head-plan.js";
import { ScheduledSequence } from "../scheduler/scheduled-sequence.js";
import type { BatchDrafter, DraftRequest } from "../speculation/drafter.js";

/** A draft ends before a token that the head itself finds less likely than this. */
const LEAST_LIKELY = 0.3;

/** The cache that the head shares with the model. */
interface SharedCache {
  readonly pools: BlockPools;
  readonly kvCache: KvCache;
}

/** A sequence in one round of drafting. */
interface Round {
  readonly sequence: ScheduledSequence;
  /** Tokens to draft at most. */
  readonly most: number;
  readonly draft: number[];
  /** The slot with the hidden states of the drafts. */
  readonly slot: number;
  /** The token to draft after. */
  token: number;
}

/** Proposes what the model's draft head predicts. */
export class DraftHeadDrafter implements BatchDrafter {
  readonly #head: DraftHeadPlan;
  readonly #cache: SharedCache;
  readonly #maxSequences: number;

  constructor(head: DraftHeadPlan, cache: SharedCache, maxSequences: number) {
    this.#head = head;
    this.#cache = cache;
    this.#maxSequences = maxSequences;
  }

  async draft(requests: readonly DraftRequest[], signal: AbortSignal): Promise<readonly (Int32Array | undefined)[]> {
    const rounds = requests.map((request, index) =>
      index < this.#maxSequences ? this.#begin(request, requests.length) : undefined,
    );
    try {
      let active = rounds.filter((round) => round !== undefined);
      while (active.length > 0) {
        const rows = await this.#head.step(this.#pack(active), this.#cache.kvCache, { signal });
        // A sequence that ended meanwhile has given its blocks back.
        active = active.filter((round, index) => isRunning(round) && continues(round, rows[index]));
      }
      return rounds.map((round) => (round === undefined ? undefined : Int32Array.from(round.draft)));
    } finally {
      for (const round of rounds) if (round !== undefined) this.#cache.pools.states?.release([round.slot]);
    }
  }

  /** Drafts hold nothing between two calls. */
  release(): void {}

  /** The plan of the model owns the head. */
  async [Symbol.asyncDispose](): Promise<void> {}

  /** Takes blocks and a slot for a draft; undefined if there are none now, or the sequence is not decoding. */
  #begin({ sequence, tokens, most }: DraftRequest, sequences: number): Round | undefined {
    const { pools, kvCache } = this.#cache;
    if (!(sequence instanceof ScheduledSequence) || sequence.state !== "running") return undefined;
    const start = sequence.computed;
    const { states } = sequence.tables;
    if (start !== tokens.length - 1 || states === undefined || states.slot < 0) return undefined;
    // Verification needs a slot for each token.
    const spare = pools.states?.spareBlocks ?? 0;
    const count = Math.min(most, spare, 1 + sequence.tables.roomAfter(start, most - 1, sequences));
    const copy = (from: number, to: number, group: number): void => kvCache.copyBlocks(Int32Array.of(from, to), group);
    if (count < 1 || !sequence.tables.makeWritable(start, start + count, copy)) return undefined;
    const slot = pools.states?.allocate(1)?.[0];
    if (slot === undefined) return undefined;
    return { sequence, most: count, draft: [], slot, token: tokens[tokens.length - 1] };
  }

  #pack(rounds: readonly Round[]): StepInput {
    const groups = this.#cache.pools.groups.map((_, group) => group);
    return {
      tokens: Int32Array.from(rounds, ({ token }) => token),
      positions: Int32Array.from(rounds, ({ sequence, draft }) => sequence.computed + draft.length),
      sequenceOffsets: Int32Array.from({ length: rounds.length + 1 }, (_, index) => index),
      blockTables: groups.flatMap((group) => rounds.map(({ sequence }) => sequence.tables.groups[group].blocks)),
      outputs: rounds.map((_, row) => ({ row, want: { kind: "candidates", count: 1 } as const })),
      stateReads: Int32Array.from(rounds, ({ sequence, draft, slot }) =>
        draft.length === 0 ? (sequence.tables.states?.slot ?? -1) : slot,
      ),
      stateWrites: Int32Array.from(rounds, ({ slot }) => slot),
    };
  }
}

function isRunning({ sequence }: Round): boolean {
  return sequence.state === "running";
}

/** Adds the token of a row to the draft; false if the draft ends. */
function continues(round: Round, row: OutputRow | undefined): boolean {
  if (row?.kind !== "candidates" || row.ids.length === 0) return false;
  if (Math.exp(row.logits[0] - row.logSum) < LEAST_LIKELY) return false;
  round.token = row.ids[0];
  round.draft.push(round.token);
  return round.draft.length < round.most;
}
