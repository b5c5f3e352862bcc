// Chooses the free parameters of a program's kernels: for batches of each size, the kernels of a step with their shapes,
// and for each a search over its candidates. Winners are used by steps that are lowered afterwards, and are kept on disk.
// Decoding one sequence comes first; the split of a row that is chosen there holds for larger batches, too.

import { availableParallelism } from "node:os";
import { GpuError } from "../../../errors.js";
import type { TunedChoice, TuneOptions, TuneReport } from "../../tuning.js";
import type { DeviceRecord } from "../kernels/device-record.js";
import type { KernelStore } from "../kernels/kernel-store.js";
import { describedChoice, recordName } from "./recorded-choices.js";
import { searchParameters, type SearchOutcome } from "../../parameter-search.js";
import { searchSpaceOf, TuningBench, type TunableKernel, tunableKernels } from "./tuning-bench.js";
import { TuningClock } from "../../tuning-clock.js";
import { type TuningHost, type TuningSize, TuningStep } from "./tuning-step.js";

const decoding = (tokens: number): TuningSize => ({ tokens, isPrompt: false });
const prompt = (tokens: number): TuningSize => ({ tokens, isPrompt: true });
/** What kernels have parameters of their own for: batches that decode and prompts, the likeliest first. */
const SIZES = [
  ...[1, 8, 16, 64, 32, 4].map(decoding),
  prompt(128),
  decoding(2),
  prompt(1024),
  ...[128, 256].map(decoding),
] as const;
/** Larger batches take the same kernels in deterministic mode. */
const MAX_DETERMINISTIC_SIZE = 8;
/** Batches from which on a step is left out if its KV cache takes more than this share of the device's memory. */
const LARGE_SIZE = 128;
const MAX_CACHE_SHARE = 1 / 64;

/** How a program is tuned. */
export interface ProgramTunerOptions {
  /** Where choices are kept. */
  readonly record: DeviceRecord;
  /** Whether launches may be captured. */
  readonly graphs: boolean;
  /** Whether the choice of this name is made; absent: all are. */
  readonly isTuned?: (name: string) => boolean;
}

/** How much of the machine a tuner may use. */
export interface TuningPace {
  /** Kernels that are searched at the same time: while one is compiled, another is timed. */
  readonly searches: number;
  /** Candidates of one kernel that are compiled at the same time. */
  readonly compilations: number;
  /** Names of choices that are made already. */
  readonly skipped: ReadonlySet<string>;
}

/** Everything at once, for a user who waits. */
export const FULL_PACE: TuningPace = {
  searches: Math.max(2, Math.min(24, Math.ceil(availableParallelism() * 1.5))),
  compilations: 64,
  skipped: new Set(),
};

interface Task {
  readonly step: TuningStep;
  readonly kernel: TunableKernel;
}

/** One run of the tuner over a program. */
export class ProgramTuner {
  readonly #host: TuningHost;
  readonly #options: ProgramTunerOptions;
  readonly #pace: TuningPace;
  readonly #clock: TuningClock;
  readonly #onProgress: NonNullable<TuneOptions["onProgress"]>;
  readonly #kernels: KernelStore;
  readonly #done: Set<string>;
  readonly #choices: TunedChoice[] = [];
  /** Whether what was chosen so far is on disk. */
  #writes: Promise<boolean> = Promise.resolve(true);
  #counts = { tried: 0, rejected: 0, done: 0, total: 0 };
  #isComplete = true;

  constructor(
    host: TuningHost,
    options: ProgramTunerOptions,
    { budgetMs, signal, onProgress = () => {} }: TuneOptions,
    pace: TuningPace = FULL_PACE,
    clock: TuningClock = new TuningClock(budgetMs, signal),
  ) {
    this.#host = host;
    this.#options = options;
    this.#pace = pace;
    this.#clock = clock;
    this.#onProgress = onProgress;
    this.#kernels = host.runtime.kernels.separate();
    this.#done = new Set(pace.skipped);
  }

  /** Tunes until everything is done or the time is up; throws only if the device is lost. */
  async run(): Promise<TuneReport> {
    try {
      const [first, ...rest] = this.#sizes();
      await this.#tuneSizes([first]);
      await this.#tuneSizes(rest);
    } finally {
      this.#clock[Symbol.dispose]();
      await this.#kernels.ended();
    }
    const { tried, rejected } = this.#counts;
    const isKept = await this.#writes;
    return {
      choices: this.#choices,
      tried,
      rejected,
      seconds: this.#clock.elapsedMs / 1000,
      isComplete: this.#isComplete,
      keptIn: isKept && this.#choices.length > 0 ? this.#options.record.path : null,
    };
  }

  #sizes(): readonly TuningSize[] {
    const { limits, deterministic } = this.#host.context.options;
    const { maxTokens, maxOutputs, contextTokens } = limits;
    const mostDecoding = Math.min(maxTokens, maxOutputs, deterministic ? MAX_DETERMINISTIC_SIZE : Infinity);
    const mostPrompt = deterministic ? 0 : Math.min(maxTokens, contextTokens);
    return SIZES.filter(({ tokens, isPrompt }) => tokens <= (isPrompt ? mostPrompt : mostDecoding));
  }

  /** Large steps come last, and do without what memory the device has no room for. */
  #isAffordable({ size, cacheBytes }: TuningStep): boolean {
    const { totalBytes } = this.#host.context.options.device;
    return size.tokens < LARGE_SIZE || cacheBytes <= totalBytes * MAX_CACHE_SHARE;
  }

  async #tuneSizes(sizes: readonly TuningSize[]): Promise<void> {
    const steps: TuningStep[] = [];
    const tasks: Task[] = [];
    try {
      for (const size of sizes) {
        if (this.#clock.isOver) break;
        // Lowering a large model takes milliseconds: it waits for its turn as measurements do.
        const step = await this.#host.alone(async () => new TuningStep(this.#host, size));
        steps.push(step);
        if (!this.#isAffordable(step)) continue;
        const { isTuned = () => true } = this.#options;
        const kernels = tunableKernels(step).filter(({ name }) => !this.#done.has(name) && isTuned(name));
        for (const kernel of kernels) this.#done.add(kernel.name);
        tasks.push(...kernels.map((kernel) => ({ step, kernel })));
      }
      this.#isComplete &&= steps.length === sizes.length;
      this.#counts.total += tasks.length;
      const searchers = Array.from({ length: this.#pace.searches }, () => this.#work(tasks));
      // All of them end before the memory of the steps is freed.
      const ended = await Promise.allSettled(searchers);
      for (const result of ended) if (result.status === "rejected") throw result.reason;
    } finally {
      for (const step of steps) step[Symbol.dispose]();
    }
  }

  async #work(tasks: Task[]): Promise<void> {
    for (let task = tasks.shift(); task !== undefined; task = tasks.shift()) {
      if (this.#clock.isOver) {
        this.#isComplete = false;
        return;
      }
      await this.#tryTune(task);
    }
  }

  /** A kernel that cannot be tuned, for lack of memory or because it does not compile, keeps its parameters. */
  async #tryTune(task: Task): Promise<void> {
    try {
      await this.#tune(task);
    } catch (error) {
      this.#host.runtime.noticed(error);
      if (!(error instanceof GpuError) && !(error instanceof RangeError)) throw error;
      if (!this.#host.runtime.isUsable) throw error;
      this.#isComplete = false;
    }
    this.#counts.done++;
    const { done, total } = this.#counts;
    this.#onProgress({ done, total, what: task.kernel.name });
  }

  async #tune({ step, kernel }: Task): Promise<void> {
    const { context } = this.#host;
    const loading = step.load().then(() => true);
    if ((await this.#clock.unlessOver(loading)) !== true) {
      this.#isComplete = false;
      return;
    }
    using bench = new TuningBench(this.#host, step, kernel, {
      kernels: this.#kernels,
      compilations: this.#pace.compilations,
      graphs: this.#options.graphs,
      isOver: () => this.#clock.isOver,
      unlessOver: (work) => this.#clock.unlessOver(work),
    });
    const outcome = await searchParameters(searchSpaceOf(kernel, context.choices), bench);
    this.#counts.tried += outcome.tried;
    this.#counts.rejected += outcome.rejected;
    this.#isComplete &&= outcome.isComplete;
    this.#keep(kernel, outcome);
  }

  /** An unfinished search that found nothing is not kept: a later one may. */
  #keep({ name, tuned }: TunableKernel, { best, startUs, bestUs, isComplete }: SearchOutcome): void {
    const { context } = this.#host;
    const { family, key, parameters: before } = tuned;
    if (startUs === undefined || bestUs === undefined || (!isComplete && best === before)) return;
    context.choices.choose(family, key, best);
    this.#choices.push(describedChoice({ family, key, before, after: best, beforeUs: startUs, afterUs: bestUs }));
    const chosen = {
      [recordName(name, context.options.deterministic)]: {
        parameters: best,
        usual: before,
        usualUs: startUs,
        chosenUs: bestUs,
      },
    };
    const earlier = this.#writes;
    this.#writes = this.#options.record.add({ chosen }).then(async (isKept) => isKept && (await earlier));
  }
}
