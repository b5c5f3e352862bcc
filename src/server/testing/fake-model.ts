// A model that generates what a test's script says, one byte per token, and a pool of such models: the server's tests
// need no engine. It counts running and past requests, and obeys signals as the engine does.

import type { ChatTemplates } from "../../chat/template/chat-templates.js";
import type {
  ChoiceSummary,
  Completion,
  CompletionDelta,
  CompletionRequest,
  CompletionSummary,
  EngineStatistics,
  ChoiceFinishReason,
  ModelLease,
  ModelListing,
  ModelPool,
  ModelEngine,
  TokenLogprob,
} from "../../engine/serving.js";
import { StopStrings } from "../../engine/stop-strings.js";
import { ServingError } from "../../errors.js";
import type { HeaderBytes } from "../../gguf/header-bytes.js";
import type { PlanResidency } from "../../plan/residency.js";
import { StreamDecoder } from "../../tokenizer/stream-decoder.js";
import type { EncodeOptions, Tokenizer } from "../../tokenizer/tokenizer.js";

const BOS = 256;
const EOS = 257;
const VOCABULARY_SIZE = 258;

function tokenBytes(id: number, special = false): Uint8Array {
  if (id < BOS) return Uint8Array.of(id);
  return special ? Buffer.from(id === BOS ? "<s>" : "</s>") : new Uint8Array();
}

/** A tokenizer with one token per byte. */
export const fakeTokenizer: Tokenizer = {
  vocabularySize: VOCABULARY_SIZE,
  longestTokenBytes: 4,
  model: "bpe",
  preTokenizer: "default",
  bosToken: BOS,
  eosToken: EOS,
  addsBos: true,
  addsEos: false,
  endOfGeneration: new Set([EOS]),
  encode: (text: string, { addSpecial = true }: EncodeOptions = {}) =>
    Int32Array.from([...(addSpecial ? [BOS] : []), ...Buffer.from(text)]),
  encodeSegments: (segments, { addSpecial = true } = {}) =>
    fakeTokenizer.encode(segments.map(({ text }) => text).join(""), { addSpecial }),
  decode: (ids, { special = false } = {}) =>
    Buffer.concat([...ids].map((id) => tokenBytes(id, special))).toString("utf8"),
  tokenText: (id) => Buffer.from(tokenBytes(id, true)).toString("latin1"),
  tokenBytes,
  createDecoder: () => new StreamDecoder(tokenBytes, false),
};

interface FakeScript {
  /** The text of a choice for a prompt. */
  answer?: (prompt: string, choice: number, request: CompletionRequest) => string;
  /** Awaited before each delta; it may reject. */
  beforeDelta?: (index: number, request: CompletionRequest) => Promise<void>;
  /** Thrown by `complete`'s iteration at once. */
  refuse?: () => Error | undefined;
  embed?: (tokens: Int32Array) => Float32Array | Promise<Float32Array>;
}

/** A scripted model that records its requests. */
export class FakeModel implements ModelEngine {
  readonly tokenizer: Tokenizer = fakeTokenizer;
  readonly vocabularySize: number = VOCABULARY_SIZE;
  chatTemplates: ChatTemplates = { default: undefined, toolUse: undefined };
  readonly requests: CompletionRequest[] = [];
  script: FakeScript = {};
  /** If undefined, the model has no file, and its texts are tokenized on the main thread. */
  readHeader?: () => Promise<HeaderBytes>;
  /** As with recurrent layers. */
  keepsCheckpoints = false;
  running = 0;
  cancelled = 0;

  constructor(
    readonly name = "fake",
    readonly contextTokens = 4096,
  ) {}

  complete(request: CompletionRequest): Completion {
    this.requests.push(request);
    let settle!: (summary: CompletionSummary) => void;
    let fail!: (error: unknown) => void;
    const summary = new Promise<CompletionSummary>((resolve, reject) => {
      settle = resolve;
      fail = reject;
    });
    summary.catch(() => {});
    const cancelling = new AbortController();
    const signal =
      request.signal === undefined ? cancelling.signal : AbortSignal.any([cancelling.signal, request.signal]);
    const left = new Set<number>();
    const deltas = this.#write(request, { signal, left }, settle, fail);
    const cancel = (choice?: number): void => void (choice === undefined ? cancelling.abort() : left.add(choice));
    return { summary, cachedTokens: cachedTokensOf(request), cancel, [Symbol.asyncIterator]: () => deltas };
  }

  async embed(tokens: Int32Array, signal?: AbortSignal): Promise<Float32Array> {
    const vector = (async () =>
      (await this.script.embed?.(tokens)) ?? Float32Array.of(tokens.length / 2 ** 20, 0.5, -0.25))();
    if (signal !== undefined) await unlessAborted(vector, signal);
    signal?.throwIfAborted();
    return vector;
  }

  statistics(): EngineStatistics {
    return { ...EMPTY_STATISTICS, running: this.running };
  }

  async *#write(
    request: CompletionRequest,
    ending: Ending,
    settle: (summary: CompletionSummary) => void,
    fail: (error: unknown) => void,
  ): AsyncGenerator<CompletionDelta, void, undefined> {
    this.running++;
    const count = request.choices ?? 1;
    const choices: ChoiceSummary[] = Array.from({ length: count }, () => ({ reason: "abort", generatedTokens: 0 }));
    try {
      const refused = this.script.refuse?.();
      if (refused !== undefined) throw refused;
      const prompt = fakeTokenizer.decode(request.prompt);
      for (let choice = 0; choice < count; choice++) {
        choices[choice] = yield* this.#writeChoice(
          request,
          ending,
          choice,
          this.script.answer?.(prompt, choice, request) ?? "Hello there",
        );
      }
      settle(summaryOf(request, choices));
    } catch (error) {
      fail(error);
      throw error;
    } finally {
      this.running--;
      if (choices.some(({ reason }) => reason === "abort")) this.cancelled++;
      settle(summaryOf(request, choices));
    }
  }

  async *#writeChoice(
    request: CompletionRequest,
    { signal, left }: Ending,
    choice: number,
    text: string,
  ): AsyncGenerator<CompletionDelta, ChoiceSummary, undefined> {
    const stops = new StopStrings(request.stop ?? []);
    const decoder = fakeTokenizer.createDecoder();
    const tokens = [...Buffer.from(text)];
    let generatedTokens = 0;
    const ended = (reason: ChoiceFinishReason, stop?: string): ChoiceSummary => ({
      reason,
      generatedTokens,
      ...(stop === undefined ? {} : { stop }),
    });
    const delta = (shown: string, own: readonly number[] = [], logprobs: readonly TokenLogprob[] = []) => ({
      choice,
      text: shown,
      tokens: own,
      logprobs,
      atMs: performance.now(),
    });
    let written = "";
    for (const [index, token] of tokens.entries()) {
      if (generatedTokens >= (request.maxTokens ?? Infinity)) {
        yield { ...delta(stops.flush()), finished: ended("length") };
        return ended("length");
      }
      await unlessAborted(this.script.beforeDelta?.(index, request) ?? Promise.resolve(), signal);
      if (signal.aborted || left.has(choice)) return ended("abort");
      await request.constraint?.allowed();
      request.constraint?.accept(token);
      generatedTokens++;
      const decoded = decoder.push(token);
      written += decoded;
      const pushed = stops.push(decoded);
      const logprobs = request.topLogprobs === undefined ? [] : [logprobOf(token, request.topLogprobs)];
      const stopped = pushed.stopped
        ? ended(
            "stop",
            request.stop?.find((stop) => written.includes(stop)),
          )
        : undefined;
      yield { ...delta(pushed.text, [token], logprobs), ...(stopped === undefined ? {} : { finished: stopped }) };
      if (stopped !== undefined) return stopped;
    }
    yield { ...delta(stops.flush()), finished: ended("stop") };
    return ended("stop");
  }
}

interface Ending {
  readonly signal: AbortSignal;
  /** Choices that were cancelled. */
  readonly left: ReadonlySet<number>;
}

function logprobOf(token: number, top: number) {
  const rivals = Array.from({ length: top }, (_, index) => ({
    token: (token + index) % BOS,
    logprob: index === 0 ? -0.5 : -Infinity,
  }));
  return { token, logprob: -0.5, top: rivals };
}

async function unlessAborted(work: Promise<unknown>, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  let wake!: () => void;
  const aborted = new Promise<void>((resolve) => {
    wake = resolve;
  });
  signal.addEventListener("abort", wake);
  try {
    await Promise.race([work, aborted]);
  } finally {
    signal.removeEventListener("abort", wake);
  }
}

function cachedTokensOf({ prompt }: CompletionRequest): number {
  return Math.min(2, prompt.length);
}

function summaryOf(request: CompletionRequest, choices: CompletionSummary["choices"]): CompletionSummary {
  return {
    choices,
    promptTokens: request.prompt.length,
    cachedTokens: cachedTokensOf(request),
    generatedTokens: choices.reduce((sum, { generatedTokens }) => sum + generatedTokens, 0),
    seed: request.sampling?.seed ?? 1,
    queuedMs: 1,
    promptMs: 2,
    timeToFirstTokenMs: 3,
    tokensPerSecond: 4,
    preemptions: 0,
    draftedTokens: 0,
    acceptedTokens: 0,
  };
}

const EMPTY_STATISTICS: EngineStatistics = {
  running: 0,
  queued: 0,
  stepSequences: 0,
  stepPrefillTokens: 0,
  stepDecodeTokens: 0,
  stepDraftTokens: 0,
  blocks: 8,
  freeBlocks: 8,
  cachedBlocks: 0,
  stateSlots: 0,
  freeStateSlots: 0,
  stateBytes: 0,
  checkpoints: 0,
  evictedCheckpoints: 0,
  computedTokens: 0,
  steps: 5,
  promptTokens: 0,
  cachedTokens: 0,
  generatedTokens: 0,
  preemptions: 0,
  draftedTokens: 0,
  acceptedTokens: 0,
  betweenStepsMs: 10,
  warmUpSteps: 8,
  warmUpStepsDone: 8,
  warmUpMs: 500,
  stepsMs: 500,
};

/** A pool of scripted models that are always loaded. */
export class FakeModelPool implements ModelPool {
  /** Awaited before a model is leased. */
  loading: Promise<void> | undefined;
  /** States of models other than "loaded". */
  readonly states = new Map<string, ModelListing["state"]>();
  /** What the list says of every loaded model. */
  loaded: Pick<ModelListing, "backend" | "unloadAtMs"> = {};
  /** Paths of real files, for tests that read them. */
  readonly paths = new Map<string, string>();
  readonly residencies = new Map<string, PlanResidency>();
  recoveries = 0;
  readonly #models: ReadonlyMap<string, FakeModel>;

  constructor(...models: readonly FakeModel[]) {
    this.#models = new Map(models.map((model) => [model.name, model]));
  }

  list(): readonly ModelListing[] {
    return [...this.#models.values()].map(({ name, contextTokens }) => ({
      ...this.loaded,
      name,
      path: this.paths.get(name) ?? `/secret/${name}.gguf`,
      state: this.states.get(name) ?? "loaded",
      contextTokens,
      created: 1_700_000_000,
    }));
  }

  async acquire(name: string, signal?: AbortSignal): Promise<ModelLease> {
    const model = this.#models.get(name);
    if (model === undefined)
      throw new ServingError("SERVING_MODEL_UNKNOWN", `[model] no model is called "${name.slice(0, 64)}"`);
    if (signal !== undefined) await unlessAborted(this.loading ?? Promise.resolve(), signal);
    signal?.throwIfAborted();
    return { model, [Symbol.dispose]: () => {} };
  }

  async with<Result>(name: string, use: (model: ModelEngine) => Promise<Result>): Promise<Result> {
    using lease = await this.acquire(name);
    return await use(lease.model);
  }

  recover(): void {
    this.recoveries++;
  }

  statistics(): ReadonlyMap<string, EngineStatistics> {
    return new Map([...this.#models].map(([name, model]) => [name, model.statistics()]));
  }

  residency(name: string): PlanResidency | undefined {
    return this.residencies.get(name);
  }

  async drain(): Promise<void> {}
  async [Symbol.asyncDispose](): Promise<void> {}
}
