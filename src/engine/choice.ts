// One choice of a completion: samples tokens as rows come, and turns them into text while the next step runs. A stop
// string is therefore found when one more token is already being computed; that token is dropped.

import type { OutputRow, OutputWant } from "../backends/contract.js";
import { BackendError } from "../errors.js";
import { requireFinite } from "../plan/output-row.js";
import type { SampleInput } from "../sampler/candidates.js";
import type { Sampler } from "../sampler/sampler.js";
import type { ScheduledSequence } from "../scheduler/scheduled-sequence.js";
import { StreamDecoder } from "../tokenizer/stream-decoder.js";
import type { ResolvedRequest } from "./completion-request.js";
import type { TokenTexts } from "./no-vocabulary.js";
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
  #rows: SampleInput[] = [];
  #text = "";
  #sampledTokens = 0;
  #deliveredTokens = 0;
  #reason: ChoiceFinishReason | undefined;
  #stop: string | undefined;
  #isFinished = false;

  constructor(owner: ChoiceOwner, parts: ChoiceParts) {
    this.#owner = owner;
    this.#parts = parts;
    this.#nextTokens = parts.nextTokens;
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
    const reason = this.#reason ?? "abort";
    return {
      reason,
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
    this.#choose(row, atMs);
  }

  launched(atMs: number): void {
    this.#owner.launched(atMs);
  }

  wanted(): RowWant {
    const bias = this.#parts.sampler.stepBias();
    const allowMask = this.#nextTokens?.mask;
    return {
      want: this.#want(),
      ...(bias === undefined ? {} : { bias }),
      ...(allowMask === undefined ? {} : { allowMask }),
    };
  }

  take(row: OutputRow, atMs: number): void {
    // Before this choice continues: the others start from the present state.
    if (this.#sequence !== undefined && this.#sequence.slots > 1) this.#owner.branch(row, atMs);
    if (!this.#isFinished) this.#choose(row, atMs);
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
      this.#end("abort");
    } catch {
      // The first failure is reported; the other choices still have to be freed.
    }
  }

  #choose(row: OutputRow, atMs: number): void {
    const { sampler, tokenizer, host } = this.#parts;
    const { maxTokens, topLogprobs, ignoreEndOfGeneration } = this.#owner.request;
    const input = sampleable(row);
    const { token } = sampler.sample(this.#fitted(input));
    this.#owner.sampled(atMs);
    host.deliverLater(this);
    if (tokenizer.endOfGeneration.has(token) && !ignoreEndOfGeneration) {
      this.#finishText();
      return;
    }
    sampler.accept(token);
    this.#owner.extended(atMs);
    this.#tokens.push(token);
    if (topLogprobs !== undefined) this.#rows.push(input);
    if (++this.#sampledTokens >= maxTokens) {
      this.#end("length");
      return;
    }
    this.#sequence?.push(token);
    this.#nextTokens?.accept(token);
    if (this.#sequence !== undefined) this.#askForMask(this.#sequence);
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

  #end(reason: ChoiceFinishReason, stop?: string): void {
    this.#reason = reason;
    this.#stop = stop;
    // A constraint that fails when it is disposed is not disposed again.
    const nextTokens = this.#nextTokens;
    this.#nextTokens = undefined;
    if (this.#sequence !== undefined) this.#parts.host.release(this.#sequence);
    nextTokens?.[Symbol.dispose]();
  }

  /** Emits text that was held back, which may complete a stop string. */
  #flush(): string {
    const last = this.#stops.push(this.#decoder.flush());
    if (!last.stopped) return last.text + this.#stops.flush();
    this.#end("stop", last.stop);
    return last.text;
  }

  /** The sequence skips steps until its mask is known. */
  #askForMask(sequence: ScheduledSequence): void {
    if (this.#nextTokens === undefined) return;
    sequence.isReady = false;
    this.#nextTokens.ask({
      ready: () => {
        sequence.isReady = true;
        this.#parts.host.wake();
      },
      fail: (error) => this.fail(error),
    });
  }

  /** Requests as many candidates as the sampler and the log-probabilities need. */
  #want(): OutputWant {
    const want = this.#parts.sampler.want();
    const { topLogprobs = 0 } = this.#owner.request;
    if (want.kind !== "candidates" || want.count >= topLogprobs) return want;
    return topLogprobs >= this.#parts.vocabularySize ? { kind: "logits" } : { kind: "candidates", count: topLogprobs };
  }

  /** The sampler takes exactly as many candidates as it requested. */
  #fitted(input: SampleInput): SampleInput {
    if (input.kind !== "candidates" || (this.#owner.request.topLogprobs ?? 0) === 0) return input;
    const want = this.#parts.sampler.want();
    if (want.kind !== "candidates" || want.count >= input.ids.length) return input;
    return { ...input, ids: input.ids.subarray(0, want.count), logits: input.logits.subarray(0, want.count) };
  }
}

/** Continues from the prompt, so that the first token keeps its leading space. */
function decoderOf(tokenizer: TokenTexts, printed: ReadonlySet<number> | undefined): StreamDecoder {
  if (printed === undefined) return tokenizer.createDecoder({ continuation: true });
  return new StreamDecoder((token) => tokenizer.tokenBytes(token, printed.has(token)), false);
}

function sampleable(row: OutputRow): SampleInput {
  const finite = requireFinite(row);
  if (finite.kind === "hidden")
    throw new BackendError("BACKEND_STEP", "[complete] the backend returned a hidden state instead of logits");
  return finite;
}
