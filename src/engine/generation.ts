// Writing text, one token at a time: feed the prompt, then sample, emit, feed back, until something ends it.
// A Generation is a single-use async iterable; leaving the loop early frees its memory at once.

import type { Sampler } from "../sampler/sampler.js";
import type { Tokenizer } from "../tokenizer/tokenizer.js";
import type { FiniteRow } from "../plan/output-row.js";
import { type Deferred, deferred } from "./deferred.js";
import { type EngineResources, type RowRequest, Sequence } from "./sequence.js";
import { StopStrings } from "./stop-strings.js";

export type StopReason = "stop" | "length" | "abort";

export interface GenerationPiece {
  /** May be empty while a character or a possible stop string is incomplete. */
  readonly text: string;
  readonly tokens: readonly number[];
}

export interface GenerationTimings {
  readonly promptMs: number;
  readonly generateMs: number;
  readonly timeToFirstTokenMs: number;
  readonly promptTokensPerSecond: number;
  readonly tokensPerSecond: number;
}

export interface GenerationSummary {
  readonly reason: StopReason;
  readonly promptTokens: number;
  readonly generatedTokens: number;
  /** Use it again to get the same text. */
  readonly seed: number;
  readonly timings: GenerationTimings;
}

export interface GenerationRequest extends EngineResources {
  /** Absent for a file without a vocabulary: then there are tokens and no text. */
  readonly tokenizer: Tokenizer | undefined;
  readonly sampler: Sampler;
  readonly prompt: Int32Array;
  readonly maxTokens: number;
  readonly stop: readonly string[];
  readonly ignoreEndOfGeneration: boolean;
  readonly signal: AbortSignal | undefined;
}

export class Generation implements AsyncIterable<GenerationPiece> {
  /** Settles when the iteration ends, early or not; `finish()` gets there without iterating. */
  readonly summary: Promise<GenerationSummary>;
  readonly #pieces: AsyncGenerator<GenerationPiece, void, undefined>;

  constructor(request: GenerationRequest) {
    const ended = deferred<GenerationSummary>();
    // Whoever iterates sees the failure there; a summary nobody asked for must not end the process.
    ended.promise.catch(() => {});
    this.summary = ended.promise;
    this.#pieces = generate(request, ended);
    settleWhenReturned(this.#pieces, () => ended.resolve(emptySummary(request)));
  }

  [Symbol.asyncIterator](): AsyncGenerator<GenerationPiece, void, undefined> {
    return this.#pieces;
  }

  /** Runs to the end and returns all the text that is still to come. */
  async finish(): Promise<GenerationSummary & { readonly text: string }> {
    let text = "";
    for await (const piece of this.#pieces) text += piece.text;
    return { ...(await this.summary), text };
  }
}

async function* generate(
  request: GenerationRequest,
  ended: Deferred<GenerationSummary>,
): AsyncGenerator<GenerationPiece, void, undefined> {
  const { sampler, prompt } = request;
  const clock = new Clock(prompt.length);
  // A caller who leaves the loop early ends it too.
  const state: GenerationState = { reason: "abort", generatedTokens: 0 };
  try {
    yield* writeText(request, clock, state);
  } catch (error) {
    ended.reject(error);
    throw error;
  } finally {
    ended.resolve({ ...state, promptTokens: prompt.length, seed: sampler.seed, timings: clock.timings(state) });
  }
}

/** A generator that is returned before its first piece never runs, so its own `finally` cannot settle anything. */
function settleWhenReturned(pieces: AsyncGenerator<GenerationPiece, void, undefined>, settle: () => void): void {
  const returnPieces = pieces.return.bind(pieces);
  pieces.return = async (value) => {
    const result = await returnPieces(value);
    settle();
    return result;
  };
}

function emptySummary({ prompt, sampler }: GenerationRequest): GenerationSummary {
  const state: GenerationState = { reason: "abort", generatedTokens: 0 };
  return {
    ...state,
    promptTokens: prompt.length,
    seed: sampler.seed,
    timings: new Clock(prompt.length).timings(state),
  };
}

interface GenerationState {
  reason: StopReason;
  generatedTokens: number;
}

async function* writeText(
  request: GenerationRequest,
  clock: Clock,
  state: GenerationState,
): AsyncGenerator<GenerationPiece, void, undefined> {
  const { tokenizer, sampler, prompt, maxTokens, signal } = request;
  using sequence = new Sequence(request, prompt.length + maxTokens);
  const decoder = tokenizer?.createDecoder({ continuation: true });
  const stops = new StopStrings(request.stop);
  for (const token of prompt) sampler.accept(token);

  let fed = prompt;
  let reason: StopReason = "length";
  while (state.generatedTokens < maxTokens) {
    const row = await unlessAborted(feedLast(sequence, fed, sampler, signal), signal);
    if (row === undefined || signal?.aborted === true) {
      reason = "abort";
      break;
    }
    const { token } = sampler.sample(row);
    clock.tick();
    if (tokenizer?.endOfGeneration.has(token) === true && !request.ignoreEndOfGeneration) {
      reason = "stop";
      break;
    }
    sampler.accept(token);
    state.generatedTokens++;
    const { text, stopped } = stops.push(decoder?.push(token) ?? "");
    if (stopped) state.reason = "stop";
    yield { text, tokens: [token] };
    if (stopped) return;
    fed = Int32Array.of(token);
  }
  const last = stops.push(decoder?.flush() ?? "");
  state.reason = last.stopped ? "stop" : reason;
  const rest = last.text + stops.flush();
  if (rest !== "") yield { text: rest, tokens: [] };
}

/** Being told to stop is an outcome here, not a failure: undefined. */
async function unlessAborted<Result>(
  work: Promise<Result>,
  signal: AbortSignal | undefined,
): Promise<Result | undefined> {
  try {
    return await work;
  } catch (error) {
    if (signal?.aborted === true) return undefined;
    throw error;
  }
}

type SampleableRow = Exclude<FiniteRow, { readonly kind: "hidden" }>;

/** The output row after the last of `tokens`. */
async function feedLast(
  sequence: Sequence,
  tokens: Int32Array,
  sampler: Sampler,
  signal: AbortSignal | undefined,
): Promise<SampleableRow | undefined> {
  const bias = sampler.stepBias();
  const wanted: RowRequest = { want: sampler.want(), ...(bias === undefined ? {} : { bias }) };
  for await (const row of sequence.feed(
    tokens,
    (index) => (index === tokens.length - 1 ? wanted : undefined),
    signal,
  )) {
    if (row.kind !== "hidden") return row;
  }
  return undefined;
}

/** Wall-clock times of one generation. */
class Clock {
  readonly #start = performance.now();
  readonly #promptTokens: number;
  #firstToken: number | undefined;
  #lastToken = this.#start;

  constructor(promptTokens: number) {
    this.#promptTokens = promptTokens;
  }

  tick(): void {
    this.#lastToken = performance.now();
    this.#firstToken ??= this.#lastToken;
  }

  timings({ generatedTokens }: GenerationState): GenerationTimings {
    const firstToken = this.#firstToken ?? performance.now();
    const promptMs = firstToken - this.#start;
    const generateMs = Math.max(0, this.#lastToken - firstToken);
    const perSecond = (count: number, ms: number): number => (ms > 0 ? (count * 1000) / ms : 0);
    return {
      promptMs,
      generateMs,
      timeToFirstTokenMs: promptMs,
      promptTokensPerSecond: perSecond(this.#promptTokens, promptMs),
      // The first token belongs to the prompt's time.
      tokensPerSecond: perSecond(Math.max(0, generatedTokens - 1), generateMs),
    };
  }
}
