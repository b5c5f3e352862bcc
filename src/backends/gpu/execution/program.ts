// A compiled program on the device. A step is one copy in, one graph launch (or individual launches, at first and for
// prefill), one copy out and one event that a pool thread waits for. Steps of one program run one after another: they
// share its scratch memory, its step buffer and its stream. One step can be queued while another runs that chooses its
// tokens.

import { BackendError } from "../../../errors.js";
import type { StepSize } from "../../../graph/memory-plan.js";
import { Lifetime } from "../../../lifetime.js";
import type { LazyTensor } from "../../../tensor/lazy-tensor.js";
import type { CompiledProgram, KvCache, OutputRow, RunOptions, StepInput } from "../../contract.js";
import type { StepShape, WarmUpStep } from "../../warm-up-step.js";
import type { KernelTime, ProfileOptions, TuneOptions, TuneReport } from "../../tuning.js";
import { BoundWeights } from "./bound-weights.js";
import { leaseCache } from "./cache-lease.js";
import { KernelPrewarm } from "../kernels/prewarm.js";
import type { KvCacheHold } from "../memory/kv-cache.js";
import type { LaunchSize } from "../lowering/launch.js";
import { failureReason, isBlasFailure } from "../blas/matmul-plan.js";
import type { LoweringContext } from "../lowering/context.js";
import { type OutputPlan, planOutputs } from "../lowering/output-rows.js";
import { refuseUnfitProgram, reserveProgram, scratchBytesFor } from "./program-memory.js";
import { ProgramTuning, type ProgramTuningOptions } from "./program-tuning.js";
import { ProgramWarmUp } from "./program-warm-up.js";
import type { GpuRuntime } from "../memory/runtime.js";
import { type KernelGate, StepAdmission } from "./step-admission.js";
import { AsyncStep, endedStep, type QueuedStep, withChosenTokens } from "./queued-step.js";
import { StateBackup } from "./state-backup.js";
import { StepGraphs, type StepGraphsOptions } from "./step-graphs.js";
import { StepLauncher } from "./step-launcher.js";
import type { LaunchRunner, UsedModule } from "./step-plan.js";
import { StepPlans, type StepPlansOptions } from "./step-plans.js";
import { StepResults } from "./step-results.js";
import { StepSession } from "./step-session.js";
import { StepStage } from "./step-stage.js";

/** Options of a GPU program. */
export interface ProgramOptions extends StepPlansOptions, StepGraphsOptions, ProgramTuningOptions {
  /** Compile kernels for other step sizes once the first step has finished. */
  readonly prewarm: boolean;
  /** Whether it computes a part of a model to check kernels: nothing is prepared or measured. */
  readonly trial?: boolean;
}

/** A step that is run again. */
interface RepeatedStep {
  readonly step: StepInput;
  readonly lease: KvCacheHold | undefined;
  readonly signal: AbortSignal | undefined;
}

/** A program compiled for one device; computes one step at a time. */
export class GpuProgram implements CompiledProgram {
  readonly #runtime: GpuRuntime;
  readonly #context: LoweringContext;
  readonly #weights: readonly LazyTensor[];
  readonly #options: ProgramOptions;
  readonly #onFreed: (program: GpuProgram) => void;
  readonly #plans: StepPlans;
  readonly #prewarm: KernelPrewarm;
  readonly #graphs: StepGraphs;
  readonly #warmUp: ProgramWarmUp;
  readonly #tuning: ProgramTuning;
  readonly #stage: StepStage;
  readonly #lifetime = new Lifetime("the program");
  readonly #bound: BoundWeights;
  readonly #states: StateBackup;
  readonly #launcher: StepLauncher;
  /** The step whose launches were queued last; undefined from when a step begins until its launches are queued. */
  #last: QueuedStep | undefined;
  #hasReserved = false;
  #hasRun = false;
  #freeing: Promise<void> | undefined;

  /** `onFreed` is called when all of its device memory is freed. */
  constructor(
    runtime: GpuRuntime,
    context: LoweringContext,
    weights: readonly LazyTensor[],
    options: ProgramOptions,
    onFreed: (program: GpuProgram) => void,
    gate?: KernelGate,
  ) {
    this.#onFreed = onFreed;
    this.#runtime = runtime;
    this.#context = context;
    this.#weights = weights;
    this.#bound = new BoundWeights(runtime, weights);
    this.#states = new StateBackup(runtime, context);
    this.#options = options;
    this.#graphs = new StepGraphs(runtime, options);
    this.#stage = new StepStage(runtime);
    this.#plans = new StepPlans(runtime, context, options);
    this.#launcher = new StepLauncher({
      runtime,
      context,
      bound: this.#bound,
      plans: this.#plans,
      graphs: this.#graphs,
      admission: new StepAdmission(context, this.#plans, this.#graphs, gate),
      states: this.#states,
      loaded: () => void (options.trial === true || runtime.marks.kernels.end()),
    });
    this.#prewarm = new KernelPrewarm(runtime.kernels);
    this.#warmUp = new ProgramWarmUp(context, this.#plans, this.#prewarm, this.#graphs, async (work) => {
      if (this.#stage.session !== undefined) await this.#alone(async ({ memory }, runner) => work(runner, memory));
    });
    const refresh = (): Promise<void> => this.#alone(async () => this.#lowerAnew());
    this.#tuning = new ProgramTuning({ runtime, context, weights, refresh, alone: this.#alone.bind(this) }, options);
    if (options.trial === true) return;
    runtime.marks.kernels.begin();
    this.#plans.prepareDecode();
  }

  scratchBytes(size: StepSize): number {
    return scratchBytesFor(this.#context, size, this.#plans.mayUseBlas) + this.#runtime.unstagedBytes;
  }

  /** All modules that a step of this size needs. */
  modulesFor(size: LaunchSize): readonly UsedModule[] {
    return this.#plans.modulesFor(size);
  }

  prepare(tokens: number): void {
    this.#lifetime.assertAlive();
    this.#plans.preparePrompt(tokens);
  }

  beginLoading(): void {
    if (this.#hasReserved || this.#stage.session !== undefined) return;
    this.#hasReserved = true;
    reserveProgram(this.#runtime, this.#context, this.#weights);
  }

  warmUpSteps(sequences: number): readonly WarmUpStep[] {
    return this.#options.prewarm ? this.#warmUp.steps(sequences) : [];
  }

  async prepareWarmUp(shape: StepShape): Promise<void> {
    await this.#warmUp.prepare(shape);
  }

  async rehearse(shape: StepShape): Promise<void> {
    await this.#warmUp.rehearse(shape);
  }

  async tune(options: TuneOptions): Promise<TuneReport> {
    this.#lifetime.assertAlive();
    return await this.#tuning.tune(options);
  }

  async profileKernels(options: ProfileOptions): Promise<readonly KernelTime[]> {
    this.#lifetime.assertAlive();
    return await this.#tuning.profile(options);
  }

  get asyncScheduling(): boolean {
    return this.#options.graphs && this.#context.regions.hostRows.length === 0;
  }

  async run(step: StepInput, kvCache: KvCache | undefined, { signal }: RunOptions = {}): Promise<readonly OutputRow[]> {
    signal?.throwIfAborted();
    this.#lifetime.assertAlive();
    // Leased from here on, even while the step waits for others: the cache may be disposed meanwhile.
    const lease = kvCache === undefined ? undefined : leaseCache(this.#runtime, this.#context, kvCache);
    try {
      if (lease?.turn !== undefined) await lease.turn;
      const turn = this.#stage.lock.take();
      this.#tuning.stepBegan();
      const following = turn === undefined ? undefined : this.#queueAsync(step, lease);
      if (turn !== undefined) await turn;
      try {
        // Without a turn of the event loop otherwise: the next step may be queued behind this one right away.
        const rows = following === undefined ? undefined : await following.rows();
        if (rows !== undefined) return rows;
        signal?.throwIfAborted();
        this.#runtime.assertUsable();
        return await this.#step(withChosenTokens(step, following?.previous ?? this.#last), lease, signal);
      } finally {
        this.#stage.lock.release();
        this.#warmUp.stepEnded();
        this.#tuning.stepEnded();
      }
    } finally {
      lease?.[Symbol.dispose]();
    }
  }

  /** Waits for running steps and for the tuner first. */
  [Symbol.dispose](): void {
    if (!this.#lifetime.end()) return;
    this.#tuning[Symbol.dispose]();
    if (this.#stage.lock.isIdle && this.#tuning.ended === undefined) this.#free();
    else this.#freeing = this.#freeWhenIdle();
  }

  /** Resolves when all of its device memory is freed. */
  async ended(): Promise<void> {
    this[Symbol.dispose]();
    await this.#freeing;
  }

  async #freeWhenIdle(): Promise<void> {
    await this.#tuning.ended;
    await this.#stage.lock.whenIdle();
    this.#free();
  }

  async #step(
    step: StepInput,
    lease: KvCacheHold | undefined,
    signal: AbortSignal | undefined,
  ): Promise<readonly OutputRow[]> {
    this.#last = undefined;
    const outputs = this.#planOutputs(step);
    let queued: QueuedStep | undefined;
    try {
      const session = (this.#stage.session ??= this.#begin(lease));
      const { hostRows } = session.memory;
      if (hostRows !== undefined) await hostRows.gather(step.tokens, this.#weights);
      const launched = this.#launcher.launch({ step, session, outputs, lease }, signal);
      const isReplayed = typeof launched === "boolean" ? launched : await launched;
      const results = new StepResults(this.#runtime, this.#context, session.memory, outputs);
      results.queue(session.stream);
      this.#plans.check?.queueFinding(session.stream);
      queued = this.#last = { outputs, isReplayed, ended: undefined };
      await session.finished({ soon: isReplayed });
      const wrong = this.#plans.check?.finding();
      if (wrong !== undefined) return await this.#withoutLibrary(wrong, queued, { step, lease, signal });
      this.#states.confirm();
      if (!isReplayed) this.#afterFirst();
      const rows = await results.read(session.stream, () => session.finished());
      queued.ended = endedStep(rows);
      return rows;
    } catch (error) {
      await this.#stage.settle();
      if (isBlasFailure(error) && this.#runtime.isUsable && this.#plans.blas !== undefined)
        return await this.#withoutLibrary(failureReason(error), queued, { step, lease, signal });
      throw this.#runtime.noticed(error);
    } finally {
      if (queued !== undefined) queued.ended ??= "failed";
    }
  }

  #planOutputs({ outputs }: StepInput): OutputPlan {
    const { program } = this.#context.options.fused;
    const plan = planOutputs(outputs, program.vocabularySize);
    if (plan.scored > 0 && program.logits === undefined)
      throw new BackendError("BACKEND_STEP", "[step] this program computes no logits");
    return plan;
  }

  /** Queues a step behind the running one, which chooses its tokens; undefined if it has to wait for that one. */
  #queueAsync(step: StepInput, lease: KvCacheHold | undefined): AsyncStep | undefined {
    const [previous, { session, lock }] = [this.#last, this.#stage];
    if (step.previousOutputs === undefined || session === undefined || lock.waiting > 1) return undefined;
    if (previous?.isReplayed !== true || previous.ended !== undefined) return undefined;
    const failed = async (error: unknown): Promise<never> => {
      await this.#stage.settle();
      throw this.#runtime.noticed(error);
    };
    try {
      const outputs = this.#planOutputs(step);
      if (!this.#launcher.launchAsync({ step, session, outputs, lease }, previous.outputs)) return undefined;
      const results = new StepResults(this.#runtime, this.#context, session.memory, outputs);
      results.queue(session.stream);
      const following = new AsyncStep(previous, outputs, session.recordEnd(), {
        read: () => results.read(session.stream, () => session.finished()),
        failed,
      });
      this.#last = following.queued;
      return following;
    } catch (error) {
      const unqueued = AsyncStep.failed(previous, () => failed(error));
      this.#last = unqueued.queued;
      return unqueued;
    }
  }

  /** Repeats the step without the BLAS library, with the states that it began with; it overwrites all results. */
  async #withoutLibrary(
    reason: string,
    queued: QueuedStep | undefined,
    { step, lease, signal }: RepeatedStep,
  ): Promise<readonly OutputRow[]> {
    // A step that was queued behind it computes with what it left: it is repeated, too.
    await this.#stage.settle();
    this.#plans.giveUpBlas(reason);
    if (this.#stage.session !== undefined) this.#states.restore(this.#stage.session.stream);
    const rows = await this.#step(step, lease, signal);
    if (queued !== undefined) queued.ended = endedStep(rows, true);
    return rows;
  }

  /** Runs `work` between two steps, with what they use. */
  #alone<Result>(work: (session: StepSession, runner: LaunchRunner) => Promise<Result>): Promise<Result> {
    return this.#stage.between(async () => {
      this.#lifetime.assertAlive();
      const session = (this.#stage.session ??= this.#begin(undefined));
      if (this.#bound.hasMoved()) this.#launcher.unbind();
      return await work(session, this.#launcher.runner(session));
    });
  }

  /** Steps from here on have the kernel parameters that were chosen meanwhile. */
  #lowerAnew(): void {
    this.#graphs.clear();
    this.#plans.clear();
    if (this.#options.prewarm) this.#plans.prepareRest(this.#prewarm);
  }

  /** After the first step, kernels for other sizes may be compiled. */
  #afterFirst(): void {
    if (this.#hasRun || this.#options.trial === true) return;
    this.#hasRun = true;
    this.#runtime.marks.firstStep.end();
    this.#tuning.start();
    if (!this.#options.prewarm || this.#lifetime.disposed) return;
    this.#plans.prepareRest(this.#prewarm);
    this.#warmUp.prepareWhenIdle(() => this.#stage.lock.isIdle && !this.#lifetime.disposed);
  }

  #begin(lease: KvCacheHold | undefined): StepSession {
    refuseUnfitProgram(this.#runtime, this.#context, this.#weights, lease?.groups.map(({ blocks }) => blocks) ?? []);
    this.#runtime.marks.firstStep.begin();
    return new StepSession(this.#runtime, this.#context, { cleared: this.#options.trial === true });
  }

  #free(): void {
    this.#warmUp[Symbol.dispose]();
    this.#prewarm[Symbol.dispose]();
    this.#graphs[Symbol.dispose]();
    this.#runtime.release(() => {
      this.#plans[Symbol.dispose]();
      this.#states[Symbol.dispose]();
      this.#stage.session?.[Symbol.dispose]();
    });
    this.#stage.session = undefined;
    this.#onFreed(this);
  }
}
