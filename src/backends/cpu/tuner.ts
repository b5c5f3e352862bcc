// Chooses threads and prefill chunks for one model on this machine, by timing real steps: candidates are timed in turns
// with the present setting, and have to be clearly faster. Threads come first, because chunks are timed with them.

import { availableParallelism } from "node:os";
import type { KvShape } from "../../graph/program.js";
import { type SearchBench, searchParameters, type SearchParameters } from "../parameter-search.js";
import type { CompiledProgram, KvCache, KvCacheOptions, ProgramLimits, StepInput } from "../contract.js";
import type { TunedChoice, TuneOptions, TuneReport } from "../tuning.js";
import { TuningClock } from "../tuning-clock.js";
import type { SettingName, TunedSetting } from "./tuned-settings.js";

/** Other programs make a processor's times differ by more than a GPU's. */
const LEAST_GAIN = 0.03;
const CHUNK_CANDIDATES = [64, 128, 256, 512] as const;
/** Tokens whose prefill is timed with each chunk size. */
const PREFILL_TOKENS = 512;
/** Prompt tokens of the step with which threads are timed beside decoding. */
const PROMPT_TOKENS = 64;
/** Chats prefill about four tokens for each one that they decode. */
const PREFILL_WEIGHT = 4;
const DECODE_STEPS = 4;

/** What is tuned. */
export interface CpuSettings {
  readonly threads: number;
  readonly chunkTokens: number;
}

/** What the tuner needs of a program's backend. */
export interface CpuTunerHost {
  readonly kv: KvShape;
  readonly limits: ProgramLimits;
  readonly maxStepTokens: number;
  readonly vocabularySize: number;
  readonly settings: CpuSettings;
  /** Whether the user left the number of threads open. */
  readonly mayChooseThreads: boolean;
  /** The same program on this many threads, which it is also confined to from here on. */
  compile(threads: number): CompiledProgram;
  createKvCache(options: KvCacheOptions): KvCache;
}

/** The result of a tuner: what to use from here on, and what to tell. */
export interface CpuTuning {
  readonly settings: Readonly<Partial<Record<SettingName, TunedSetting>>>;
  readonly report: Omit<TuneReport, "keptIn">;
}

/** Threads that are tried beside the default: about half, three quarters, one less, and all processors. */
export function threadCandidates(threads: number, all: number = availableParallelism()): readonly number[] {
  const wanted = [Math.ceil(threads / 2), Math.round(threads * 0.75), threads - 1, threads, all];
  return [...new Set(wanted)].filter((count) => count >= 1).toSorted((left, right) => left - right);
}

/** Tunes a program; rejects only if steps fail. */
export async function tuneCpu(host: CpuTunerHost, options: TuneOptions): Promise<CpuTuning> {
  using clock = new TuningClock(options.budgetMs, options.signal);
  using steps = new TimedSteps(host, options.signal);
  const searches: Search[] = [];
  let { threads, chunkTokens } = host.settings;
  const report = (what: string): void => options.onProgress?.({ done: searches.length, total: 2, what });
  if (host.mayChooseThreads) {
    report("threads");
    const found = await search("threads", threads, threadCandidates(threads), clock, (count) =>
      steps.mixedUs(count, chunkTokens),
    );
    threads = found.setting?.after ?? threads;
    searches.push(found);
  }
  report("prefill chunks");
  const most = Math.min(host.maxStepTokens, host.limits.maxTokens, host.limits.contextTokens);
  const chunks = CHUNK_CANDIDATES.filter((tokens) => tokens <= most);
  const found = await search("chunkTokens", Math.min(chunkTokens, most), chunks, clock, (tokens) =>
    steps.prefillUs(threads, tokens),
  );
  chunkTokens = found.setting?.after ?? chunkTokens;
  searches.push(found);
  return {
    settings: Object.fromEntries(
      searches.flatMap(({ name, setting }) => (setting === undefined ? [] : [[name, setting]])),
    ),
    report: {
      choices: searches.flatMap(({ name, setting }) => (setting === undefined ? [] : [settingChoice(name, setting)])),
      tried: searches.reduce((sum, { tried }) => sum + tried, 0),
      rejected: 0,
      seconds: clock.elapsedMs / 1000,
      isComplete: searches.every(({ isComplete }) => isComplete),
    },
  };
}

/** A tuned setting for people. */
export function settingChoice(name: SettingName, { before, after, beforeUs, afterUs }: TunedSetting): TunedChoice {
  const [kernel, shape] =
    name === "threads" ? ["cpu threads", "a token, decoded with four of a prompt"] : ["cpu prefill", "a prompt token"];
  return { kernel, shape, before: { [name]: before }, after: { [name]: after }, beforeUs, afterUs };
}

interface Search {
  readonly name: SettingName;
  /** Undefined if there was no time for it. */
  readonly setting: TunedSetting | undefined;
  readonly tried: number;
  readonly isComplete: boolean;
}

async function search(
  name: SettingName,
  present: number,
  candidates: readonly number[],
  clock: TuningClock,
  time: (value: number) => Promise<number>,
): Promise<Search> {
  const bench: SearchBench = {
    usable: async (wanted) => wanted,
    time: async (parameters) => await time(parameters[name]),
    isOver: () => clock.isOver,
  };
  const others = candidates.filter((value) => value !== present).map((value): SearchParameters => ({ [name]: value }));
  const space = { start: { [name]: present }, neighbours: () => others, isValid: () => true, leastGain: LEAST_GAIN };
  const { best, startUs, bestUs, tried, isComplete } = await searchParameters(space, bench);
  const isKnown = startUs !== undefined && bestUs !== undefined && (isComplete || best[name] !== present);
  const setting = isKnown ? { before: present, after: best[name], beforeUs: startUs, afterUs: bestUs } : undefined;
  return { name, setting, tried, isComplete };
}

/** Runs synthetic steps of one sequence in a KV cache of its own, and times them. */
class TimedSteps implements Disposable {
  readonly #host: CpuTunerHost;
  readonly #signal: AbortSignal | undefined;
  readonly #cache: KvCache;
  readonly #positions: number;
  #program: { readonly threads: number; readonly compiled: CompiledProgram } | undefined;

  constructor(host: CpuTunerHost, signal: AbortSignal | undefined) {
    this.#host = host;
    this.#signal = signal;
    const { limits, kv } = host;
    this.#positions = Math.min(limits.contextTokens, PREFILL_TOKENS + DECODE_STEPS);
    this.#cache = host.createKvCache({
      ...kv,
      type: limits.kvCacheType,
      blockTokens: limits.blockTokens,
      blocks: Math.ceil(this.#positions / limits.blockTokens),
      stateSlots: 1,
    });
  }

  /** Microseconds of a decoded token with its share of prompt tokens. */
  async mixedUs(threads: number, chunkTokens: number): Promise<number> {
    const prompt = Math.min(PROMPT_TOKENS, chunkTokens, this.#positions - 1);
    const promptUs = (await this.#runUs(threads, 0, prompt)) / prompt;
    let decodeUs = Number.POSITIVE_INFINITY;
    for (let index = 0; index < Math.min(DECODE_STEPS, this.#positions - prompt); index++)
      decodeUs = Math.min(decodeUs, await this.#runUs(threads, prompt + index, 1));
    return decodeUs + PREFILL_WEIGHT * promptUs;
  }

  /** Microseconds of a prompt token if a prompt is computed in chunks of this many. */
  async prefillUs(threads: number, chunkTokens: number): Promise<number> {
    const tokens = Math.min(PREFILL_TOKENS, this.#positions);
    let totalUs = 0;
    for (let start = 0; start < tokens; start += chunkTokens)
      totalUs += await this.#runUs(threads, start, Math.min(chunkTokens, tokens - start));
    return totalUs / tokens;
  }

  [Symbol.dispose](): void {
    this.#program?.compiled[Symbol.dispose]();
    this.#cache[Symbol.dispose]();
  }

  /** The program is compiled anew only if the number of threads changes. */
  #on(threads: number): CompiledProgram {
    if (this.#program?.threads !== threads) {
      this.#program?.compiled[Symbol.dispose]();
      this.#program = { threads, compiled: this.#host.compile(threads) };
    }
    return this.#program.compiled;
  }

  async #runUs(threads: number, start: number, tokens: number): Promise<number> {
    const step = this.#step(start, tokens);
    const program = this.#on(threads);
    const startMs = performance.now();
    await program.run(step, this.#cache, this.#signal === undefined ? {} : { signal: this.#signal });
    return (performance.now() - startMs) * 1000;
  }

  #step(start: number, tokens: number): StepInput {
    const { vocabularySize, kv } = this.#host;
    const states = {
      stateReads: Int32Array.of(start === 0 ? -1 : 0),
      stateWrites: Int32Array.from({ length: tokens }, (_, row) => (row === tokens - 1 ? 0 : -1)),
    };
    return {
      tokens: Int32Array.from({ length: tokens }, (_, row) => (1 + (start + row) * 7919) % vocabularySize),
      positions: Int32Array.from({ length: tokens }, (_, row) => start + row),
      sequenceOffsets: Int32Array.of(0, tokens),
      blockTables: [Int32Array.from({ length: this.#cache.options.blocks }, (_, block) => block)],
      outputs: [{ row: tokens - 1, want: { kind: "candidates", count: 1 } }],
      ...(kv.states === undefined ? {} : states),
    };
  }
}
