// What serving is made of, seen from the doors: a model that completes many prompts at once, and what it says of each.
// Types only; engine/ has the loop behind them, server/ and cli/ stand before them.

import type { ChatTemplates } from "../chat/template/chat-templates.js";
import type { HeaderBytes } from "../gguf/header-bytes.js";
import type { SamplerOptions } from "../sampler/options.js";
import type { Tokenizer } from "../tokenizer/tokenizer.js";

/** Which tokens may come next: structured output. It may think elsewhere (another thread), hence the promise. */
export interface TokenConstraint extends Disposable {
  /** Bit i of word i/32 allows token i; undefined allows all. Asked once before each token. */
  allowed(): Promise<Uint32Array | undefined>;
  /** Told of each token that was chosen. */
  accept(token: number): void;
  /** Asked before a text is called finished: rejects if it is not what the constraint allows to end. */
  finish?(): Promise<void>;
  /** Another one at the same place, for a second choice of the same prompt. */
  fork(): TokenConstraint;
}

export interface CompletionRequest {
  readonly prompt: Int32Array;
  /** The most tokens to write; by default until the context is full. */
  readonly maxTokens?: number;
  readonly sampling?: Partial<SamplerOptions>;
  /** Text that ends a choice and is not part of it. */
  readonly stop?: readonly string[];
  /** How many texts to write for the prompt, which is read once; 1 by default. Choice i has the seed plus i. */
  readonly choices?: number;
  /** Log-probabilities of each token and of so many of the likeliest beside it (0 to 20); undefined: none. */
  readonly topLogprobs?: number;
  readonly constraint?: TokenConstraint;
  /** From -100 to 100, 0 by default. Higher ones go first; those who have waited long enough are overtaken no more. */
  readonly priority?: number;
  /** Ends it with what is there, reason "time". */
  readonly timeLimitMs?: number;
  readonly ignoreEndOfGeneration?: boolean;
  /** Control tokens whose text is part of the answer all the same: the marks of a tool call, which a chat's parser reads. */
  readonly printedTokens?: ReadonlySet<number>;
  readonly signal?: AbortSignal;
}

export interface TokenLogprob {
  readonly token: number;
  readonly logprob: number;
  /** Likeliest first, as many as were asked for. */
  readonly top: readonly { readonly token: number; readonly logprob: number }[];
}

export interface CompletionPiece {
  readonly choice: number;
  /** May be empty while a character or a possible stop string is incomplete. */
  readonly text: string;
  readonly tokens: readonly number[];
  readonly logprobs: readonly TokenLogprob[];
  /** What it was joined of for a slow reader, so that it can be cut as if it had been read at once; undefined: of nothing. */
  readonly parts?: readonly PiecePart[];
  /** When the engine had its last token, by the process's clock, however late it is read. */
  readonly atMs: number;
  /** On a choice's last piece: how it ended. A choice that is cancelled has none. */
  readonly finished?: ChoiceSummary;
}

/** How much of a joined piece came at once. */
export interface PiecePart {
  readonly characters: number;
  readonly tokens: number;
}

export type FinishReason = "stop" | "length" | "time" | "abort";

export interface ChoiceSummary {
  readonly reason: FinishReason;
  /** The stop string that ended it, where one did. */
  readonly stop?: string;
  readonly generatedTokens: number;
}

export interface CompletionSummary {
  readonly choices: readonly ChoiceSummary[];
  readonly promptTokens: number;
  /** Of the prompt, what was in the cache already. */
  readonly cachedTokens: number;
  readonly generatedTokens: number;
  readonly seed: number;
  readonly queuedMs: number;
  readonly promptMs: number;
  readonly timeToFirstTokenMs: number;
  readonly tokensPerSecond: number;
  /** How often it lost its place to others and began again. */
  readonly preemptions: number;
}

/**
 * Single-use. Nobody waits for a slow reader: pieces wait in a buffer that is bounded by the request's own tokens, and
 * leaving the loop early cancels the request within a step.
 */
export interface Completion extends AsyncIterable<CompletionPiece> {
  readonly summary: Promise<CompletionSummary>;
  /** Prompt tokens taken from the prefix cache; undefined until the first token has been sampled. */
  readonly cachedTokens: number | undefined;
  /** Of one choice, the others go on. */
  cancel(choice?: number): void;
}

export interface EngineStatistics {
  readonly running: number;
  readonly queued: number;
  readonly blocks: number;
  readonly freeBlocks: number;
  /** Held by no request, kept for a prompt that begins alike. */
  readonly cachedBlocks: number;
  readonly steps: number;
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly generatedTokens: number;
  readonly preemptions: number;
  /** Milliseconds between a step's result and the next step's launch, and of steps, in all. */
  readonly betweenStepsMs: number;
  readonly stepsMs: number;
  /** Of the warm-up: its steps, those that are done, and the time it has taken so far. */
  readonly warmUpSteps: number;
  readonly warmUpStepsDone: number;
  readonly warmUpMs: number;
}

/** One model that serves many. */
export interface ServedModel {
  readonly name: string;
  readonly tokenizer: Tokenizer;
  readonly contextTokens: number;
  readonly vocabularySize: number;
  readonly chatTemplates: ChatTemplates;
  /** What another thread makes the same tokenizer of; left out where there is no file. */
  readHeader?(): Promise<HeaderBytes>;
  /** Rejected with a ServingError "SERVING_QUEUE_FULL" (details: retryAfterMs) when too many wait. */
  complete(request: CompletionRequest): Completion;
  /** Mean of the last layer's states over all tokens, of length 1. */
  embed(tokens: Int32Array, signal?: AbortSignal): Promise<Float32Array>;
  statistics(): EngineStatistics;
}

export interface ModelListing {
  readonly name: string;
  readonly path: string;
  /** Failed: its device was lost, its file was damaged, or its last load failed. The next request loads it again. */
  readonly state: "unloaded" | "loading" | "loaded" | "failed";
  readonly contextTokens: number | undefined;
  /** Unix seconds: when the file was last changed. */
  readonly created: number;
}

/** The models of a server: loaded when asked for, swapped when memory runs out, unloaded after idle time. */
export interface ModelShelf extends AsyncDisposable {
  list(): readonly ModelListing[];
  /**
   * Runs `use` with the model loaded; it is not unloaded meanwhile. Rejects with ServingError "SERVING_MODEL_UNKNOWN" for
   * a name that is not there.
   */
  with<Result>(name: string, use: (model: ServedModel) => Promise<Result>): Promise<Result>;
  /** Tries again to load models that have failed, now and then, for those who ask for their health and for nothing else. */
  recover(): void;
  /** Of the models that are loaded, by name. */
  statistics(): ReadonlyMap<string, EngineStatistics>;
  /** Lets what runs end, for at most so long; new work is refused with "SERVING_STOPPING". */
  drain(timeoutMs: number): Promise<void>;
}
