// The engine as the layers above see it: requests, their results, and the models of a server. Types only: engine.ts and
// the engine loop implement them, completion/, model/ and server/ use them.

import type { ChatTemplates } from "../chat/template/chat-templates.js";
import type { HeaderBytes } from "../gguf/header-bytes.js";
import type { PlanResidency } from "../plan/residency.js";
import type { SamplerOptions } from "../sampler/options.js";
import type { Tokenizer } from "../tokenizer/tokenizer.js";

/** Determines which tokens may come next, for structured output. It may run on another thread, hence the promises. */
export interface TokenConstraint extends Disposable {
  /** Bit i of word i/32 allows token i; undefined allows all. Called once before each token. */
  allowed(): Promise<Uint32Array | undefined>;
  /**
   * The masks along a draft, instead of `allowed`. Follows the draft as far as its tokens are allowed, and tokens that are
   * the only allowed ones; at most `most`. Without this method nothing is drafted.
   */
  allowedAlong?(draft: readonly number[], most: number): Promise<AllowedPath>;
  /** Called with each sampled token. */
  accept(token: number): void;
  /** Called before a text counts as finished: rejects if the constraint does not allow it to end here. */
  finish?(): Promise<void>;
  /** A copy with the same state, for another choice of the same prompt. */
  fork(): TokenConstraint;
}

/** Tokens that a constraint allows one after the other. */
export interface AllowedPath {
  readonly tokens: readonly number[];
  /** The mask before each of the tokens, and the one after the last; one more than there are tokens. */
  readonly masks: readonly (Uint32Array | undefined)[];
}

/** A prompt and how to continue it. */
export interface CompletionRequest {
  readonly prompt: Int32Array;
  /** Maximum number of tokens to generate; by default as many as the context holds. */
  readonly maxTokens?: number;
  readonly sampling?: Partial<SamplerOptions>;
  /** Text that ends a choice and is not part of it. */
  readonly stop?: readonly string[];
  /** Number of texts to generate from one prefill of the prompt; 1 by default. Choice i uses the seed plus i. */
  readonly choices?: number;
  /** Adds log-probabilities of each token and of this many of the likeliest alternatives (0 to 20); none by default. */
  readonly topLogprobs?: number;
  readonly constraint?: TokenConstraint;
  /** From -100 to 100, 0 by default. Higher ones go first, but do not overtake requests that have waited long. */
  readonly priority?: number;
  /** Ends the completion after this time with the text so far and the reason "timeout". */
  readonly timeLimitMs?: number;
  readonly ignoreEndOfGeneration?: boolean;
  /** Control tokens whose text is still part of the output, such as the markers of a tool call. */
  readonly printedTokens?: ReadonlySet<number>;
  /**
   * Numbers of leading prompt tokens after which later prompts are expected to differ. A model with recurrent layers keeps
   * its states there, so that those prompts continue from there; others reuse whole blocks anyway.
   */
  readonly checkpoints?: readonly number[];
  /**
   * For tests and benchmarks of drafts: the tokens of the answer, which replace what is sampled. Everything else runs as
   * it does without them.
   */
  readonly scriptedTokens?: Int32Array;
  readonly signal?: AbortSignal;
}

/** The log-probability of a generated token, with those of the likeliest alternatives. */
export interface TokenLogprob {
  readonly token: number;
  readonly logprob: number;
  /** The likeliest tokens, best first. */
  readonly top: readonly { readonly token: number; readonly logprob: number }[];
}

/** Text and tokens that one choice adds. */
export interface CompletionDelta {
  readonly choice: number;
  /** May be empty while a character or a possible stop string is incomplete. */
  readonly text: string;
  readonly tokens: readonly number[];
  readonly logprobs: readonly TokenLogprob[];
  /**
   * The deltas it was joined from for a slow reader, so that text is split as if it had been read at once; undefined if
   * it was not joined.
   */
  readonly parts?: readonly DeltaPart[];
  /** When the engine sampled its last token, by `performance.now()`, however late it is read. */
  readonly atMs: number;
  /** On the last delta of a choice: how it ended. A cancelled choice has none. */
  readonly finished?: ChoiceSummary;
}

/** The size of one of the deltas that were joined. */
export interface DeltaPart {
  readonly characters: number;
  readonly tokens: number;
}

/** Why a choice ended. */
export type ChoiceFinishReason = "stop" | "length" | "timeout" | "abort";

/** How one choice ended. */
export interface ChoiceSummary {
  readonly reason: ChoiceFinishReason;
  /** The stop string that ended the text, if one did. */
  readonly stop?: string;
  readonly generatedTokens: number;
}

/** Counts and times of a whole completion. */
export interface CompletionSummary {
  readonly choices: readonly ChoiceSummary[];
  readonly promptTokens: number;
  /** Prompt tokens that were found in the prefix cache. */
  readonly cachedTokens: number;
  readonly generatedTokens: number;
  readonly seed: number;
  readonly queuedMs: number;
  readonly promptMs: number;
  readonly timeToFirstTokenMs: number;
  readonly tokensPerSecond: number;
  /** How often a sequence was preempted and computed again. */
  readonly preemptions: number;
  /** Draft tokens that were verified, and how many of them were accepted. */
  readonly draftedTokens: number;
  readonly acceptedTokens: number;
}

/**
 * A completion, which can be iterated once. Unread deltas wait in a buffer that holds no more than the tokens of the
 * request, so that a slow reader does not stall others. Leaving the loop early cancels the request within a step.
 */
export interface Completion extends AsyncIterable<CompletionDelta> {
  readonly summary: Promise<CompletionSummary>;
  /** Prompt tokens taken from the prefix cache; undefined until the first token has been sampled. */
  readonly cachedTokens: number | undefined;
  /** Cancels all choices, or one of them. */
  cancel(choice?: number): void;
}

/** A completion that keeps its text for callers that do not iterate it. */
export interface WholeCompletion extends Completion {
  /** The text of a choice so far; of the first by default. */
  text(choice?: number): string;
}

/** The present state of an engine, and its totals since it was started. */
export interface EngineStatistics {
  readonly running: number;
  readonly queued: number;
  /** Sequences in the batch of the running step; 0 between steps. */
  readonly stepSequences: number;
  /** Tokens of prompts that the running step computes. */
  readonly stepPrefillTokens: number;
  /** Sequences that the running step extends by a token. */
  readonly stepDecodeTokens: number;
  /** Draft tokens that the running step verifies. */
  readonly stepDraftTokens: number;
  /** Blocks of the KV cache, of all cache groups together. */
  readonly blocks: number;
  readonly freeBlocks: number;
  /** Blocks that no request uses and that are kept for prompts with the same prefix. */
  readonly cachedBlocks: number;
  /** Slots for recurrent states: one for each sequence that runs, the others for checkpoints; 0 without recurrent layers. */
  readonly stateSlots: number;
  readonly freeStateSlots: number;
  /** Bytes of all state slots. */
  readonly stateBytes: number;
  /** Recurrent states that are kept for prompts with the same prefix. */
  readonly checkpoints: number;
  readonly evictedCheckpoints: number;
  readonly steps: number;
  readonly promptTokens: number;
  /** Prompt tokens that were not computed, because the prefix cache had them. */
  readonly cachedTokens: number;
  /** Tokens that steps have computed: of prompts, of answers, and of sequences that were preempted. */
  readonly computedTokens: number;
  readonly generatedTokens: number;
  /** Draft tokens that were verified, and how many of them were accepted. */
  readonly draftedTokens: number;
  readonly acceptedTokens: number;
  readonly preemptions: number;
  /** Total milliseconds between the result of a step and the launch of the next. */
  readonly betweenStepsMs: number;
  readonly stepsMs: number;
  /** Number of steps of the warm-up. */
  readonly warmUpSteps: number;
  readonly warmUpStepsDone: number;
  readonly warmUpMs: number;
}

/** Completes and embeds texts with one model. */
export interface ModelEngine {
  readonly name: string;
  readonly tokenizer: Tokenizer;
  readonly contextTokens: number;
  readonly vocabularySize: number;
  readonly chatTemplates: ChatTemplates;
  /** Whether prefixes are reused only up to positions at which the model keeps its states; false by default. */
  readonly keepsCheckpoints?: boolean;
  /** The name of the backend that computes; absent if nothing does, as in tests. */
  readonly backend?: string;
  /**
   * The header of the model's file, from which a worker thread builds the same tokenizer; absent if there is no file.
   */
  readHeader?(): Promise<HeaderBytes>;
  /** Starts a completion; it rejects with SERVING_QUEUE_FULL (details: retryAfterMs) if the queue is full. */
  complete(request: CompletionRequest): Completion;
  /** The mean of the last layer's states over all tokens, scaled to length 1. */
  embed(tokens: Int32Array, signal?: AbortSignal): Promise<Float32Array>;
  statistics(): EngineStatistics;
  /** The model's tensors, and which of them are loaded; absent if there are none. */
  readonly residency?: PlanResidency | undefined;
}

/** A model of a server, as `/v1/models` lists it. */
export interface ModelListing {
  readonly name: string;
  readonly path: string;
  /** "failed": its device was lost, its file damaged, or its last load failed. The next request loads it again. */
  readonly state: "unloaded" | "loading" | "loaded" | "failed";
  readonly contextTokens: number | undefined;
  /** The backend that a loaded model computes on. */
  readonly backend?: string | undefined;
  /** When an idle model will be unloaded, in Unix milliseconds; undefined if it is in use, or stays loaded. */
  readonly unloadAtMs?: number | undefined;
  /** When the file was last changed, in Unix seconds. */
  readonly created: number;
}

/** A model in use: it is not unloaded before the lease is disposed. */
export interface ModelLease extends Disposable {
  readonly model: ModelEngine;
}

/** The models of a server: loaded on demand, swapped when memory is short, unloaded after idle time. */
export interface ModelPool extends AsyncDisposable {
  list(): readonly ModelListing[];
  /**
   * Loads the model if necessary, and keeps it loaded until the lease is disposed. Rejects with ServingError
   * "SERVING_MODEL_UNKNOWN" for an unknown name, and with the signal's reason if it is aborted; a load that has started
   * continues.
   */
  acquire(name: string, signal?: AbortSignal): Promise<ModelLease>;
  /**
   * Runs `use` with the model loaded; it is not unloaded meanwhile. Rejects with ServingError "SERVING_MODEL_UNKNOWN"
   * for an unknown name.
   */
  with<Result>(name: string, use: (model: ModelEngine) => Promise<Result>): Promise<Result>;
  /** Reloads models that have failed, at most every few seconds; for health checks, which request no model. */
  recover(): void;
  /** Statistics of the loaded models, by name. */
  statistics(): ReadonlyMap<string, EngineStatistics>;
  /** The tensors of a model that is loaded or being loaded; undefined for any other. */
  residency(name: string): PlanResidency | undefined;
  /** Waits for requests to end, at most this long; new ones are refused with "SERVING_STOPPING". */
  drain(timeoutMs: number): Promise<void>;
}
