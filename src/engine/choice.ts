// One choice of a completion: samples tokens as rows come, and turns them into text while the next step runs. A stop
// string is therefore found when more tokens are already being computed, which are dropped. A draft is verified by
// sampling: each row gives its token as if there were no draft, and the rows after the first wrong draft token are dropped.

import type { OutputRow } from "../backends/contract.js";
import type { Sampler } from "../sampler/sampler.js";
import type { ScheduledSequence } from "../scheduler/scheduled-sequence.js";
import type { SequenceDrafts } from "../speculation/speculation.js";
import type { StreamDecoder } from "../tokenizer/stream-decoder.js";
import { type RowOptions, rowWant, rowWantAfterNext, type SampledRow, sampleable, sampleRow } from "./choice-rows.js";
import type { ResolvedRequest } from "./completion-request.js";
import { decoderOf, type TokenTexts, withoutEnd } from "./no-vocabulary.js";
import type { NextTokens } from "./next-tokens.js";
import type { DeltaStream } from "./delta-stream.js";
import type { ChoiceSummary, ChoiceFinishReason, TokenLogprob } from "./serving.js";
import type { RowWant, SequenceHost, StepReader } from "./step-reader.js";
import { StopStrings } from "./stop-strings.js";
import { tokenLogprob } from "./token-logprobs.js";

/** The completion that a choice belongs to. */
export interface ChoiceOwner {
  readonly request: ResolvedRequest;
  readonly stream: DeltaStream;
  launched(atMs: number): void;
  /** Called with the first row after the prompt, from which all choices begin. */
  branch(row: OutputRow, atMs: number): void;
  /** A token was sampled; it may be one that ends the text. */
  sampled(atMs: number): void;
  /** The sampled token is part of the text. */
  extended(atMs: number): void;
  /** A draft was verified. */
  verified(draftedTokens: number, acceptedTokens: number): void;
  finished(): void;
  fail(error: unknown): void;
}

interface ChoiceParts {
  readonly index: number;
  readonly sampler: Sampler;
  readonly nextTokens: NextTokens | undefined;
  readonly tokenizer: TokenTexts;
  readonly vocabularySize: number;
  readonly host: SequenceHost;
}

type SampleOutcome = "continues" | "end-of-text" | "length";

const NO_DRAFT: Int32Array = new Int32Array();

/** One text that a request generates: samples its tokens, applies stop strings and delivers deltas. */
export class Choice implements StepReader {
  readonly #owner: ChoiceOwner;
  readonly #parts: ChoiceParts;
  readonly #decoder: StreamDecoder;
  readonly #stops: StopStrings;
  #nextTokens: NextTokens | undefined;
  #sequence: ScheduledSequence | undefined;
  /** Sampled tokens that are not decoded yet, and their rows if log-probabilities are requested. */
  #tokens: number[] = [];
  #rows: SampledRow[] = [];
  #text = "";
  #sampledTokens = 0;
  #deliveredTokens = 0;
  readonly #drafts: SequenceDrafts | undefined;
  /** What the last sampled token means for the text. */
  #outcome: SampleOutcome = "continues";
  #reason: ChoiceFinishReason | undefined;
  #stop: string | undefined;
  #isFinished = false;

  constructor(owner: ChoiceOwner, parts: ChoiceParts) {
    this.#owner = owner;
    this.#parts = parts;
    this.#nextTokens = parts.nextTokens;
    this.#drafts = parts.host.speculation?.begin();
    this.#decoder = decoderOf(parts.tokenizer, owner.request.printedTokens);
    this.#stops = new StopStrings(owner.request.stop);
  }

  get isFinished(): boolean {
    return this.#isFinished;
  }

  /** All text that was delivered so far. */
  get text(): string {
    return this.#text;
  }

  get sequence(): ScheduledSequence | undefined {
    return this.#sequence;
  }

  summary(): ChoiceSummary {
    return {
      reason: this.#reason ?? "abort",
      ...(this.#stop === undefined ? {} : { stop: this.#stop }),
      generatedTokens: this.#deliveredTokens,
    };
  }

  /** Sets the sequence that it extends; the first mask is computed during prefill. */
  begin(sequence: ScheduledSequence): void {
    this.#sequence = sequence;
    this.#askForMask(sequence);
  }

  /** Continues from the prompt that another choice has computed, with its own sequence and the prompt's output row. */
  branch(first: Choice, row: OutputRow, atMs: number): void {
    if (first.#sequence === undefined) return;
    const { host } = this.#parts;
    if (this.#isFinished) {
      // Cancelled during prefill: the reserved slot is released.
      host.release(host.fork(first.#sequence, this));
      return;
    }
    // The constraint first: forking it may fail, and then no sequence may be left without an owner.
    this.#nextTokens = first.#nextTokens?.fork();
    this.#sequence = host.fork(first.#sequence, this);
    this.#sample(row, atMs);
    this.#proceed();
  }

  launched(atMs: number): void {
    this.#owner.launched(atMs);
  }

  wanted(draftTokens: number): RowWant {
    const { sampler } = this.#parts;
    const bias = sampler.stepBias();
    const allowMask = this.#nextTokens?.maskAfter(draftTokens);
    return {
      want: rowWant(sampler, draftTokens, this.#rowOptions()),
      ...(bias === undefined ? {} : { bias }),
      ...(allowMask === undefined ? {} : { allowMask }),
    };
  }

  wantedAfterNext(): RowWant | "ends" | undefined {
    if (this.#isFinished || this.#sampledTokens + 1 >= this.#owner.request.maxTokens) return "ends";
    if (this.#nextTokens !== undefined || this.#drafts?.asksBatch === true) return undefined;
    return rowWantAfterNext(this.#parts.sampler, this.#rowOptions());
  }

  take(row: OutputRow, atMs: number): void {
    // Before this choice continues: the others start from the present state.
    if (this.#sequence !== undefined && this.#sequence.slots > 1) this.#owner.branch(row, atMs);
    if (this.#isFinished) return;
    this.#sample(row, atMs);
    this.#proceed();
  }

  verify(rows: readonly OutputRow[], draft: Int32Array, atMs: number): number {
    let sampled = 0;
    for (const row of rows) {
      const token = this.#sample(row, atMs);
      if (this.#outcome !== "continues" || token !== draft[sampled++]) break;
    }
    // The row that ends the text was sampled, too.
    const accepted = this.#outcome === "continues" ? sampled : sampled + 1;
    this.#owner.verified(draft.length, accepted - 1);
    return accepted;
  }

  verified(): void {
    if (!this.#isFinished) this.#proceed();
  }

  deliver(): void {
    if (this.#isFinished) return;
    const { topLogprobs } = this.#owner.request;
    const tokens = this.#tokens;
    const rows = this.#rows;
    this.#tokens = [];
    this.#rows = [];
    const delivered: number[] = [];
    const logprobs: TokenLogprob[] = [];
    let text = "";
    for (const [index, token] of tokens.entries()) {
      const found = this.#stops.push(this.#decoder.push(token));
      text += found.text;
      delivered.push(token);
      if (topLogprobs !== undefined) logprobs.push(tokenLogprob(rows[index], token, topLogprobs));
      if (found.stopped) {
        this.#end("stop", found.stop);
        break;
      }
    }
    if (this.#reason !== undefined && this.#stop === undefined) text += this.#flush();
    this.#text += text;
    this.#deliveredTokens += delivered.length;
    const finished = this.#reason === undefined || this.#reason === "abort" ? undefined : this.summary();
    if (delivered.length > 0 || text !== "" || finished !== undefined)
      this.#owner.stream.push(this.#parts.index, text, delivered, logprobs, finished);
    if (this.#reason === undefined) return;
    this.#isFinished = true;
    this.#owner.finished();
  }

  /** Ends the choice with the text so far. */
  finish(reason: ChoiceFinishReason): void {
    if (this.#isFinished) return;
    if (this.#reason === undefined) this.#end(reason);
    this.deliver();
  }

  fail(error: unknown): void {
    this.#owner.fail(error);
  }

  /** Frees everything without notifying the reader, which receives another failure. */
  abandon(): void {
    this.#isFinished = true;
    try {
      this.#end("abort", undefined, false);
    } catch {
      // The first failure is reported; the other choices still have to be freed.
    }
  }

  #rowOptions(): RowOptions {
    const { topLogprobs = 0, scriptedTokens } = this.#owner.request;
    // Other choices begin from the prompt's last row, and scripted tokens have log-probabilities of their own.
    const isShared = (this.#sequence?.slots ?? 1) > 1 || scriptedTokens !== undefined;
    return { topLogprobs, vocabularySize: this.#parts.vocabularySize, isShared };
  }

  /** Draws a token from a row and adds it to the text; what follows from it is left to `#proceed`. */
  #sample(row: OutputRow, atMs: number): number {
    const { sampler, tokenizer, host } = this.#parts;
    const { maxTokens, topLogprobs, ignoreEndOfGeneration, scriptedTokens } = this.#owner.request;
    const input = sampleable(row);
    const sampled = sampleRow(sampler, input);
    const token = scriptedTokens?.[this.#sampledTokens] ?? sampled;
    this.#owner.sampled(atMs);
    host.deliverLater(this);
    if (tokenizer.endOfGeneration.has(token) && !ignoreEndOfGeneration) {
      this.#outcome = "end-of-text";
      return token;
    }
    sampler.accept(token);
    this.#owner.extended(atMs);
    this.#tokens.push(token);
    if (topLogprobs !== undefined) this.#rows.push(input);
    if (++this.#sampledTokens >= maxTokens) {
      this.#outcome = "length";
      return token;
    }
    this.#sequence?.push(token);
    this.#nextTokens?.accept(token);
    return token;
  }

  /** Ends the text, or prepares its next step: a draft, and the masks of its rows. */
  #proceed(): void {
    if (this.#outcome === "length") this.#end("length");
    else if (this.#outcome === "end-of-text") this.#finishText();
    else if (this.#sequence !== undefined) this.#prepare(this.#sequence);
  }

  #prepare(sequence: ScheduledSequence): void {
    const drafts = this.#drafts;
    // The last token of a text is not drafted: the row before it gives that token anyway.
    const most = this.#owner.request.maxTokens - this.#sampledTokens - 1;
    const draft = drafts === undefined ? NO_DRAFT : this.#withoutEnd(drafts.propose(sequence.tokens, most));
    this.#useDraft(sequence, draft);
    const batchLength = draft.length > 0 ? 0 : (drafts?.batchLength(most) ?? 0);
    if (batchLength === 0 || sequence.isQueuedEarly) return;
    const { tokens } = sequence;
    this.#parts.host.speculation?.wait({
      sequence,
      tokens,
      most: batchLength,
      use: (proposed) => {
        drafts?.expectBatch(proposed, tokens.length);
        if (proposed.length > 0 && sequence.state === "running" && sequence.length === tokens.length)
          this.#useDraft(sequence, this.#withoutEnd(proposed));
      },
    });
  }

  #useDraft(sequence: ScheduledSequence, draft: Int32Array): void {
    if (this.#nextTokens === undefined) sequence.draft = draft;
    else this.#askForMask(sequence, draft);
  }

  #withoutEnd(draft: Int32Array): Int32Array {
    return this.#owner.request.ignoreEndOfGeneration ? draft : withoutEnd(draft, this.#parts.tokenizer);
  }

  /** A constrained text is checked before it counts as finished; until then its sequence skips steps. */
  #finishText(): void {
    if (this.#nextTokens?.checksEnd !== true || this.#sequence === undefined) {
      this.#end("stop");
      return;
    }
    this.#sequence.isReady = false;
    const fail = (error: unknown): void => this.fail(error);
    const ready = (): void => {
      try {
        this.finish("stop");
      } catch (error) {
        fail(error);
      }
    };
    this.#nextTokens.finish({ ready, fail });
  }

  #end(reason: ChoiceFinishReason, stop?: string, keepsStates = true): void {
    this.#reason = reason;
    this.#stop = stop;
    // A constraint that fails when it is disposed is not disposed again.
    const nextTokens = this.#nextTokens;
    this.#nextTokens = undefined;
    if (this.#sequence !== undefined) this.#parts.host.release(this.#sequence, keepsStates);
    nextTokens?.[Symbol.dispose]();
  }

  /** Emits text that was held back, which may complete a stop string. */
  #flush(): string {
    const last = this.#stops.push(this.#decoder.flush());
    if (!last.stopped) return last.text + this.#stops.flush();
    this.#end("stop", last.stop);
    return last.text;
  }

  /** The sequence skips steps until its mask is known, and those after each token of its draft. */
  #askForMask(sequence: ScheduledSequence, draft: Int32Array = NO_DRAFT): void {
    const nextTokens = this.#nextTokens;
    if (nextTokens === undefined) return;
    sequence.isReady = false;
    const most = this.#owner.request.maxTokens - this.#sampledTokens - 1;
    const ready = (): void => {
      sequence.draft = this.#withoutEnd(nextTokens.draft);
      sequence.isReady = true;
      this.#parts.host.wake();
    };
    const forced = this.#sampledTokens === 0 ? 0 : (this.#drafts?.certainLength(most) ?? 0);
    nextTokens.ask({ ready, fail: (error) => this.fail(error) }, { draft, most: Math.max(draft.length, forced) });
  }
}
