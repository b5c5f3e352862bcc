// A program's plans, one per class of step sizes and created on demand, with the BLAS library for large matmuls.
// Kernels for sizes that have not occurred yet are compiled meanwhile, the likeliest first.

import { createHash } from "node:crypto";
import { isUnavailableDriver } from "../drivers/shared/driver-library.js";
import { traced } from "../drivers/shared/start-trace.js";
import type { KernelPrewarm } from "../kernels/prewarm.js";
import type { LaunchSize } from "../lowering/launch.js";
import { type KeptChoices, loadBlasLibrary, type BlasLibrary, openBlasLibrary } from "../blas/blas-library.js";
import { failureReason, isBlasFailure } from "../blas/matmul-plan.js";
import { MatmulCheck } from "../blas/matmul-check.js";
import type { LoweringContext, LoweringSize } from "../lowering/context.js";
import { isTiled } from "../lowering/prefill-attention.js";
import { lowerStep } from "../lowering/lowering.js";
import { leastBlasBatch } from "../lowering/blas-batch.js";
import { batchClass, MIN_BLAS_BATCH } from "../lowering/matmul-selection.js";
import type { ModuleRequest } from "../kernels/kernel-store.js";
import type { GpuRuntime } from "../memory/runtime.js";
import { exactSize } from "../lowering/step-bucket.js";
import { SPLIT_POSITIONS, splitsOf } from "../memory/kv-layout.js";
import type { StepMemory } from "./step-memory.js";
import { StepPlan, type LaunchRunner, type UsedModule } from "./step-plan.js";

/** Whether the BLAS library is used, and whether it is verified. */
export interface StepPlansOptions {
  readonly blas: boolean;
  /** Whether the BLAS library's matmuls are first compared with this package's own. */
  readonly checks: boolean;
}

interface NamedPlan {
  readonly name: string;
  readonly plan: StepPlan;
  /** Whether the BLAS library computes some of its matmuls. */
  readonly blas: boolean;
}

/** Token counts with their own kernels: batches of sequences, and prefill chunks. */
const PREWARM_TOKENS = [2, 4, 8, 16, 32, 64, 128, 256, 512];
/** Raised when the stored format of the BLAS library's choices changes. */
const CHOICES_VERSION = "library choices 1";
/** Larger batches than this are rare. */
const MAX_PREWARM_SEQUENCES = 256;

/** The plans of one program by step size, and its BLAS library. */
export class StepPlans implements Disposable {
  readonly #runtime: GpuRuntime;
  readonly #context: LoweringContext;
  readonly #options: StepPlansOptions;
  readonly #plans = new Map<string, StepPlan>();
  /** Checks of the BLAS library's matmuls, if the driver's results are checked. */
  readonly check: MatmulCheck | undefined;
  /** The fewest tokens of a step that uses the BLAS library. */
  readonly leastBlasBatch: number;
  #blas: BlasLibrary | "none" | undefined;
  #opening: Promise<void> | undefined;
  #disposed = false;

  constructor(runtime: GpuRuntime, context: LoweringContext, options: StepPlansOptions) {
    this.#runtime = runtime;
    this.check = options.checks ? new MatmulCheck(runtime) : undefined;
    this.#context = context;
    this.#options = options;
    this.leastBlasBatch = leastBlasBatch(context.options);
  }

  /** The BLAS library; undefined until a step has needed it. */
  get blas(): BlasLibrary | undefined {
    return this.#blas === "none" ? undefined : this.#blas;
  }

  get mayUseBlas(): boolean {
    return (
      this.#options.blas &&
      !this.#context.options.deterministic &&
      this.#blas !== "none" &&
      this.#runtime.mayUse("blas")
    );
  }

  /**
   * Opens the BLAS library if a step of this size is the first to need it; resolves when it is open or known to be
   * absent.
   */
  opening(size: LaunchSize): Promise<void> | undefined {
    if (this.#blas !== undefined || !this.#classOf(size).blas) return undefined;
    // One that failed for lack of memory may be tried again.
    this.#opening ??= this.#openBlas().finally(() => (this.#opening = undefined));
    return this.#opening;
  }

  /** The plan for a step of this size; call after `opening`. */
  planFor(size: LaunchSize, memory: StepMemory, { blas: mayUse = true } = {}): NamedPlan {
    const wanted = this.#classOf(size);
    const { blas } = this;
    if (!wanted.blas || blas === undefined || !mayUse) return this.#plan({ ...wanted, blas: false }, size);
    const found = this.#plan(wanted, size);
    if (!this.#canMultiply(found.plan, size)) return this.#plan({ ...wanted, blas: false }, size);
    memory.addBlas();
    return found;
  }

  /** Whether the BLAS library computes matmuls of such steps, or would if it were open. */
  usesBlas(size: LaunchSize): boolean {
    return this.#classOf(size).blas;
  }

  /** Name of the plan for a step of this size; call after `opening`. */
  nameFor(size: LaunchSize): string {
    return this.#plan(this.#classOf(size), size).name;
  }

  /** Modules that a step of this size needs and that are not loaded; call after `opening`. */
  missingFor(size: LaunchSize): readonly ModuleRequest[] {
    return this.#plan(this.#classOf(size), size).plan.missing(size);
  }

  /** All modules that a step of this size needs; call after `opening`. */
  modulesFor(size: LaunchSize): readonly UsedModule[] {
    return this.#plan(this.#classOf(size), size).plan.modules(size);
  }

  /** Forgets all launches: choices of kernels have changed. */
  clear(): void {
    this.#plans.clear();
  }

  /** Lets the BLAS library choose algorithms for steps of this size and load their kernels; call after `opening`. */
  rehearseBlas(size: LaunchSize, runner: LaunchRunner, memory: StepMemory): void {
    if (this.blas === undefined) return;
    this.planFor(size, memory).plan.rehearseBlas(size, runner);
  }

  /** Stores new choices of the BLAS library; no step waits for the disk. */
  keepChoices(): void {
    const kept = this.blas?.kept;
    const changed = kept?.choices.changed();
    if (kept !== undefined && changed !== undefined)
      void this.#runtime.kernels.cache.write(this.#choicesKey(kept), changed);
  }

  /**
   * Every program on the device computes without the BLAS library from here on. None of its matmuls may still be
   * running.
   */
  giveUpBlas(reason: string): void {
    this.#runtime.giveUp("blas", reason);
    this.check?.forget();
    this.blas?.[Symbol.dispose]();
    this.#blas = "none";
  }

  /** Compiles kernels for decoding single sequences, short and long. */
  prepareDecode(): void {
    for (const longest of [1, SPLIT_POSITIONS + 1]) {
      this.#prepare(exactSize({ ...promptSize(1), longest }));
    }
  }

  /** Compiles kernels for the prefill of a prompt. */
  preparePrompt(tokens: number): void {
    this.#prepare(promptSize(tokens));
  }

  /** Compiles kernels of all other sizes in the background. */
  prepareRest(prewarm: KernelPrewarm): void {
    for (const size of this.#prewarmSizes()) void prewarm.add(() => this.missingFor(size));
  }

  unbind(): void {
    for (const plan of this.#plans.values()) plan.unbind();
  }

  [Symbol.dispose](): void {
    this.#disposed = true;
    this.blas?.[Symbol.dispose]();
    this.check?.[Symbol.dispose]();
  }

  /** Sizes of a single growing sequence come before those of batches. */
  *#prewarmSizes(): IterableIterator<LaunchSize> {
    const { maxTokens, maxOutputs } = this.#context.options.limits;
    yield* this.#decodeSizes(1);
    for (const tokens of PREWARM_TOKENS.filter((count) => count <= maxTokens)) {
      yield promptSize(tokens);
      if (tokens <= Math.min(maxOutputs, MAX_PREWARM_SEQUENCES)) yield* this.#decodeSizes(tokens);
    }
  }

  /** One token per sequence, at depths of one split, two, four and so on: attention uses other kernels as it grows. */
  *#decodeSizes(sequences: number): IterableIterator<LaunchSize> {
    const most = splitsOf(this.#context.options.limits.contextTokens);
    for (let splits = 1; splits < 2 * most; splits *= 2) {
      yield exactSize({
        ...promptSize(sequences),
        outputs: sequences,
        scored: sequences,
        sequences,
        longest: splits * SPLIT_POSITIONS,
        longestRun: 1,
      });
    }
  }

  #prepare(size: LaunchSize): void {
    for (const { file, defines } of this.#plan(this.#classOf(size), size).plan.missing(size)) {
      // The step loads it again and reports the failure.
      this.#runtime.kernels.module(file, defines).catch(() => {});
    }
  }

  #classOf(size: LaunchSize): LoweringSize {
    return stepClass(size, {
      deterministic: this.#context.options.deterministic,
      blas: this.mayUseBlas,
      leastBlas: this.leastBlasBatch,
    });
  }

  #plan(wanted: LoweringSize, size: LaunchSize): NamedPlan {
    const context = this.#context.holding(size);
    const name = `${wanted.tokens} ${wanted.outputs} ${wanted.blas} ${wanted.tiled} ${context === this.#context.compact}`;
    const known = this.#plans.get(name);
    if (known !== undefined) return { name, plan: known, blas: wanted.blas };
    const plan = traced(`lower ${name}`, () => new StepPlan(this.#runtime, lowerStep(context, wanted)));
    this.#plans.set(name, plan);
    return { name, plan, blas: wanted.blas };
  }

  /** Whether the BLAS library has an algorithm for every matmul; if the query itself fails, the library is disabled. */
  #canMultiply(plan: StepPlan, size: LaunchSize): boolean {
    const { blas } = this;
    if (blas === undefined) return false;
    try {
      return plan.blasShapes(size).every((shape) => blas.prepare(shape));
    } catch (error) {
      if (!isBlasFailure(error)) throw error;
      this.giveUpBlas(failureReason(error));
      return false;
    }
  }

  async #openBlas(): Promise<void> {
    const { device, kernels } = this.#runtime;
    await loadBlasLibrary(device);
    if (this.#disposed || !this.#runtime.isUsable) return;
    const opened = openBlasLibrary(device);
    this.#blas = isUnavailableDriver(opened) ? "none" : opened;
    const kept = this.blas?.kept;
    const stored = kept === undefined ? undefined : await kernels.cache.read(this.#choicesKey(kept));
    if (stored !== undefined) kept?.choices.restore(stored);
  }

  /** Algorithms belong to one version of the BLAS library on one kind of device. */
  #choicesKey({ identity }: KeptChoices): string {
    const {
      kind,
      properties: { name, architecture, multiprocessors },
    } = this.#runtime.device;
    return createHash("sha256")
      .update(JSON.stringify([CHOICES_VERSION, kind, identity, name, architecture, multiprocessors]))
      .digest("hex");
  }
}

interface StepClassOptions {
  readonly deterministic: boolean;
  /** Whether the BLAS library may be used. */
  readonly blas: boolean;
  /** From how many tokens on it is. */
  readonly leastBlas?: number;
}

/** The class of steps that one of this size belongs to. */
export function stepClass(
  size: LaunchSize,
  { deterministic, blas, leastBlas = MIN_BLAS_BATCH }: StepClassOptions,
): LoweringSize {
  if (deterministic) return { tokens: "small", outputs: "small", blas: false };
  const rows = batchClass(size.tokens);
  return {
    tokens: rows,
    outputs: batchClass(size.outputs),
    blas: blas && size.tokens >= leastBlas,
    tiled: isTiled(size),
  };
}

/** The size of a step with the first tokens of one sequence, and an output for the last of them. */
function promptSize(tokens: number): LaunchSize {
  return exactSize({ tokens, outputs: 1, scored: 1, sequences: 1, tiles: tokens, longest: tokens, longestRun: tokens });
}
