// The engine loop over a simulated device, with a vocabulary of single letters.

import type { BlockPool } from "../../kv-cache/block-pool.js";
import type { SchedulerLimits } from "../../scheduler/limits.js";
import type { Speculation } from "../../speculation/speculation.js";
import { StreamDecoder } from "../../tokenizer/stream-decoder.js";
import type { Tokenizer } from "../../tokenizer/tokenizer.js";
import { CompletionJob } from "../completion-job.js";
import { resolveRequest } from "../completion-request.js";
import { EmbeddingSink } from "../embedding.js";
import { KvStore } from "../kv-store.js";
import { RowJob } from "../row-job.js";
import type { CompletionDelta, CompletionRequest, CompletionSummary } from "../serving.js";
import { EngineLoop } from "../engine-loop.js";
import { BLOCK_TOKENS, SimulatedDevice, VOCABULARY } from "./simulated-device.js";

/** The token that ends a text. */
export const END_TOKEN = VOCABULARY - 1;
const CONTEXT_TOKENS = 64;
const LIMITS: SchedulerLimits = {
  stepTokens: 32,
  stepOutputs: 8,
  prefillTokens: 16,
  prefillTokensWhileDecoding: 8,
  sequences: 8,
  queued: 50,
};

interface SimulationOptions {
  readonly blocks?: number;
  /** Initial number of blocks; all by default. */
  readonly firstBlocks?: number;
  readonly sharesPrefixes?: boolean;
  /** State slots, as for a model with recurrent layers; none by default. */
  readonly stateSlots?: number;
  readonly limits?: Partial<SchedulerLimits>;
  readonly constraintTimeoutMs?: number;
  /** Drafters of the engine; none by default. */
  readonly speculation?: Speculation;
  /** Whether the device takes steps before the previous one's tokens are known. */
  readonly asyncScheduling?: boolean;
  /** Called with each token that is decoded to text. */
  readonly onDecode?: (token: number) => void;
  /** Called with the running time of each request. */
  readonly onEnd?: (runningMs: number) => void;
}

interface Answer {
  readonly deltas: readonly CompletionDelta[];
  readonly texts: readonly string[];
  readonly tokens: readonly (readonly number[])[];
  readonly summary: CompletionSummary;
}

/** An engine loop over a simulated device. */
export class SimulatedEngine {
  readonly device: SimulatedDevice;
  readonly loop: EngineLoop;
  readonly pool: BlockPool;
  /** The pool of state slots. */
  readonly states: BlockPool | undefined;
  readonly #options: SimulationOptions;
  readonly #limits: SchedulerLimits;

  constructor(options: SimulationOptions = {}) {
    const { blocks = 64, sharesPrefixes = true, limits = {}, stateSlots } = options;
    this.#options = options;
    this.#limits = { ...LIMITS, ...limits };
    this.device = new SimulatedDevice();
    this.device.asyncScheduling = options.asyncScheduling ?? false;
    const store = new KvStore({
      groups: [{ blocks: this.#options.firstBlocks ?? blocks, maxBlocks: blocks }],
      blockTokens: BLOCK_TOKENS,
      sharesPrefixes,
      states: stateSlots === undefined ? undefined : { slots: stateSlots },
      create: (size, slots) => this.device.createKvCache(size, slots),
    });
    [this.pool] = store.pools.groups;
    this.states = store.pools.states;
    this.loop = new EngineLoop(this.device, store, this.#limits, () => 1500, options.speculation);
  }

  complete(request: Partial<CompletionRequest> & { readonly prompt: Int32Array }): CompletionJob {
    const contextTokens = Math.min(CONTEXT_TOKENS, this.pool.maxBlocks * BLOCK_TOKENS);
    const limits = { vocabularySize: VOCABULARY, contextTokens, sequences: this.#limits.sequences };
    const job = new CompletionJob(resolveRequest({ sampling: { temperature: 0 }, ...request }, limits), {
      host: this.loop,
      tokenizer: letters(this.#options.onDecode),
      vocabularySize: VOCABULARY,
      constraintTimeoutMs: this.#options.constraintTimeoutMs ?? 5000,
      counts: { promptTokens: 0, cachedTokens: 0, generatedTokens: 0 },
      ended: this.#options.onEnd ?? (() => {}),
    });
    job.begin();
    return job;
  }

  embed(tokens: Int32Array, signal?: AbortSignal): Promise<Float32Array> {
    return new RowJob(this.loop, { tokens, firstOutput: 0, signal }, new EmbeddingSink()).run();
  }

  async read(job: CompletionJob): Promise<Answer> {
    const deltas: CompletionDelta[] = [];
    for await (const delta of job) deltas.push(delta);
    const of = (choice: number): CompletionDelta[] => deltas.filter((delta) => delta.choice === choice);
    const choices = Array.from({ length: job.request.choices }, (_, choice) => of(choice));
    return {
      deltas,
      texts: choices.map((own) => own.map(({ text }) => text).join("")),
      tokens: choices.map((own) => own.flatMap(({ tokens }) => [...tokens])),
      summary: await job.summary,
    };
  }
}

/** The text of some tokens. */
export function textOf(tokens: readonly number[]): string {
  return tokens.map((token) => String.fromCodePoint(97 + token)).join("");
}

function letters(onDecode: (token: number) => void = () => {}): Tokenizer {
  const bytesOf = (token: number): Uint8Array => Buffer.from(textOf([token]));
  const decoder = (): StreamDecoder =>
    new StreamDecoder((token) => {
      onDecode(token);
      return bytesOf(token);
    }, false);
  const unused = (): never => {
    throw new Error("not used in simulations");
  };
  return {
    vocabularySize: VOCABULARY,
    longestTokenBytes: 1,
    model: "bpe",
    preTokenizer: "letters",
    bosToken: undefined,
    eosToken: END_TOKEN,
    addsBos: false,
    addsEos: false,
    endOfGeneration: new Set([END_TOKEN]),
    encode: unused,
    encodeSegments: unused,
    decode: (ids) => textOf([...ids]),
    tokenText: unused,
    tokenBytes: bytesOf,
    createDecoder: decoder,
  };
}
