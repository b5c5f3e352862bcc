// A compiled program on the device. A step is one copy in, one graph launch (or individual launches, at first and for
// prefill), one copy out and one event that a pool thread waits for. Steps of one program run one after another: they
// share its scratch memory, its step buffer and its stream.

import { BackendError } from "../../../errors.js";
import type { StepSize } from "../../../graph/memory-plan.js";
import { Lifetime } from "../../../lifetime.js";
import type { LazyTensor } from "../../../tensor/lazy-tensor.js";
import type {
  CompiledProgram,
  KvCache,
  OutputRow,
  RunOptions,
  StepInput,
  StepShape,
  WarmUpStep,
} from "../../contract.js";
import type { TuneOptions, TuneReport } from "../../tuning.js";
import { BoundWeights } from "./bound-weights.js";
import { leaseCache } from "./cache-lease.js";
import { KernelPrewarm } from "../kernels/prewarm.js";
import type { KvCacheHold } from "../memory/kv-cache.js";
import type { LaunchSize } from "../lowering/launch.js";
import { launchRunner } from "./launch-runner.js";
import { failureReason, isBlasFailure } from "../blas/matmul-plan.js";
import type { LoweringContext } from "../lowering/context.js";
import { type OutputPlan, planOutputs } from "../lowering/output-rows.js";
import { refuseUnfitProgram, scratchBytesFor } from "./program-memory.js";
import { ProgramTuning, type ProgramTuningOptions } from "./program-tuning.js";
import { ProgramWarmUp } from "./program-warm-up.js";
import type { GpuRuntime } from "../memory/runtime.js";
import { bucketKey, exactSize } from "../lowering/step-bucket.js";
import { type KernelGate, StepAdmission } from "./step-admission.js";
import { StateBackup } from "./state-backup.js";
import { StepGraphs, type StepGraphsOptions } from "./step-graphs.js";
import { packStep, tableEntriesOf } from "../lowering/step-layout.js";
import type { LaunchRunner, UsedModule } from "./step-plan.js";
import { StepPlans, type StepPlansOptions } from "./step-plans.js";
import { StepResults } from "./step-results.js";
import { StepSession } from "./step-session.js";
import { type BroughtStep, StepStage } from "./step-stage.js";

/** Options of a GPU program. */
export interface ProgramOptions extends StepPlansOptions, StepGraphsOptions, ProgramTuningOptions {
  /** Compile kernels for other step sizes once the first step has finished. */
  readonly prewarm: boolean;
  /** Whether it computes a part of a model to check kernels: nothing is prepared or measured. */
  readonly trial?: boolean;
}

const NO_CACHE = { groups: [], blockTokens: 1 };

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
  readonly #admission: StepAdmission;
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
    this.#admission = new StepAdmission(context, this.#plans, this.#graphs, gate);
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

  async run(step: StepInput, kvCache: KvCache | undefined, { signal }: RunOptions = {}): Promise<readonly OutputRow[]> {
    signal?.throwIfAborted();
    this.#lifetime.assertAlive();
    // Leased from here on, even while the step waits for others: the cache may be disposed meanwhile.
    const lease = kvCache === undefined ? undefined : leaseCache(this.#runtime, this.#context, kvCache);
    try {
      if (lease?.turn !== undefined) await lease.turn;
      const turn = this.#stage.lock.take();
      this.#tuning.stepBegan();
      if (turn !== undefined) await turn;
      try {
        signal?.throwIfAborted();
        this.#runtime.assertUsable();
        return await this.#step(step, lease, signal);
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
    const { program } = this.#context.options.fused;
    const outputs = planOutputs(step.outputs, program.vocabularySize);
    if (outputs.scored > 0 && program.logits === undefined)
      throw new BackendError("BACKEND_STEP", "[step] this program computes no logits");
    try {
      const session = (this.#stage.session ??= this.#begin(lease));
      const { hostRows } = session.memory;
      if (hostRows !== undefined) await hostRows.gather(step.tokens, this.#weights);
      const queued = this.#queue(step, session, outputs, lease, signal);
      const isReplayed = typeof queued === "boolean" ? queued : await queued;
      const results = new StepResults(this.#runtime, this.#context, session.memory, outputs);
      results.queue(session.stream);
      this.#plans.check?.queueFinding(session.stream);
      await session.finished({ soon: isReplayed });
      const wrong = this.#plans.check?.finding();
      if (wrong !== undefined) return await this.#withoutLibrary(wrong, step, lease, signal);
      this.#states.confirm();
      if (!isReplayed) this.#afterFirst();
      return await results.read(session.stream, () => session.finished());
    } catch (error) {
      await this.#stage.settle();
      if (isBlasFailure(error) && this.#runtime.isUsable && this.#plans.blas !== undefined)
        return await this.#withoutLibrary(failureReason(error), step, lease, signal);
      throw this.#runtime.noticed(error);
    }
  }

  /** Repeats the step without the BLAS library, with the states that it began with; it overwrites all results. */
  #withoutLibrary(
    reason: string,
    step: StepInput,
    lease: KvCacheHold | undefined,
    signal: AbortSignal | undefined,
  ): Promise<readonly OutputRow[]> {
    this.#plans.giveUpBlas(reason);
    if (this.#stage.session !== undefined) this.#states.restore(this.#stage.session.stream);
    return this.#step(step, lease, signal);
  }

  /** Uploads the step's input and queues its launches; true if they are one graph. */
  #queue(
    step: StepInput,
    session: StepSession,
    outputs: OutputPlan,
    lease: KvCacheHold | undefined,
    signal: AbortSignal | undefined,
  ): boolean | Promise<boolean> {
    const { memory, stream } = session;
    const cache = lease ?? NO_CACHE;
    const context = this.#context.holding({ tokens: step.tokens.length, outputs: step.outputs.length });
    const usedBytes = context.step.usedBytes(tableEntriesOf(step, cache.blockTokens), outputs.payloadWords);
    if (memory.makeRoom(usedBytes) || this.#bound.hasMoved()) this.#unbind();
    this.#admission.followChoices();
    const size = exactSize(packStep(context.step, memory.staging, step, outputs, cache));
    const pending = lease?.pending;
    if (pending !== undefined) this.#runtime.device.streamWait(stream, pending);
    const bring = (): void => memory.copyStep(usedBytes, stream);
    bring();
    const saveStates = (key: string): boolean => this.#states.save(key, step, lease?.states, stream);
    return (
      this.#graphs.repeat(size, stream) ||
      this.#compute({ size, context, hasCache: lease !== undefined, bring, saveStates }, session, signal)
    );
  }

  /** Replays or captures a graph if this size has one or is due for one, otherwise launches one by one. */
  async #compute(
    { size, context, hasCache, bring, saveStates }: BroughtStep,
    session: StepSession,
    signal: AbortSignal | undefined,
  ): Promise<boolean> {
    const { memory } = session;
    const opening = this.#plans.opening(size);
    if (opening !== undefined) await opening;
    await this.#admission.admit(size);
    const wanted = this.#plans.planFor(size, memory);
    const isSafe = !wanted.blas || saveStates(`${wanted.name} ${size.tokens}`);
    const { name, plan, blas } = isSafe ? wanted : this.#plans.planFor(size, memory, { blas: false });
    const bucket = this.#admission.bucketOf(size);
    const runner = this.#runner(session);
    if (bucket !== undefined) {
      const key = `${name} ${bucketKey(bucket)}`;
      if (await this.#graphs.replay({ key, plan, bucket, runner, session, context, hasCache, restore: bring }, size))
        return true;
    }
    await plan.load(size);
    if (blas) await this.#plans.check?.prepare();
    if (this.#options.trial !== true) this.#runtime.marks.kernels.end();
    signal?.throwIfAborted();
    await plan.run(size, runner, signal);
    return false;
  }

  /** Runs `work` between two steps, with what they use. */
  #alone<Result>(work: (session: StepSession, runner: LaunchRunner) => Promise<Result>): Promise<Result> {
    return this.#stage.between(async () => {
      this.#lifetime.assertAlive();
      const session = (this.#stage.session ??= this.#begin(undefined));
      if (this.#bound.hasMoved()) this.#unbind();
      return await work(session, this.#runner(session));
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

  #runner({ stream, memory }: StepSession): LaunchRunner {
    return launchRunner(this.#bound, this.#plans, stream, memory);
  }

  #unbind(): void {
    this.#bound.clear();
    this.#graphs.clear();
    this.#plans.unbind();
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
