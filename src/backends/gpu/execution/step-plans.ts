// A program's plans, one for each class of step sizes and made when first wanted, with the vendor's library that large
// products go to. Kernels of sizes that have not come yet are made ready meanwhile, the likeliest first.

import { createHash } from "node:crypto";
import { isUnavailableDriver } from "../drivers/shared/driver-library.js";
import type { KernelsAhead } from "../kernels/prewarm.js";
import type { LaunchSize } from "../lowering/launch.js";
import { type KeptChoices, loadMatrixLibrary, type MatrixLibrary, openMatrixLibrary } from "../blas/blas-library.js";
import { failureReason, isMatrixFailure } from "../blas/matmul-plan.js";
import { ProductCheck } from "../blas/matmul-check.js";
import type { LoweringContext, LoweringSize } from "../lowering/context.js";
import { isTiled } from "../lowering/attention.js";
import { lower } from "../lowering/lowering.js";
import { rowsClass } from "../lowering/matmul-selection.js";
import type { ModuleRequest } from "../kernels/kernel-store.js";
import type { GpuRuntime } from "../memory/runtime.js";
import { exactSize } from "../lowering/step-bucket.js";
import { SPLIT_POSITIONS, splitsOf } from "../memory/kv-layout.js";
import type { StepMemory } from "./step-memory.js";
import { StepPlan, type StepRunner } from "./step-plan.js";

export interface StepPlansOptions {
  readonly library: boolean;
  /** Whether the library's products are compared with this package's own. */
  readonly checks: boolean;
}

export interface NamedPlan {
  readonly name: string;
  readonly plan: StepPlan;
  /** Whether the library has a part in it. */
  readonly library: boolean;
}

/** Tokens of steps that other kernels compute than those of fewer: batches of sequences, and prompts. */
const AHEAD_TOKENS = [2, 4, 8, 16, 32, 64, 128, 512];
/** Raised when what is kept of the library's choices means something else. */
const CHOICES_VERSION = "library choices 1";
/** Larger batches than this are rare. */
const MOST_AHEAD_SEQUENCES = 64;

export class StepPlans implements Disposable {
  readonly #runtime: GpuRuntime;
  readonly #context: LoweringContext;
  readonly #options: StepPlansOptions;
  readonly #plans = new Map<string, StepPlan>();
  /** Of the library's products, where they are not trusted unseen. */
  readonly check: ProductCheck | undefined;
  #library: MatrixLibrary | "none" | undefined;
  #opening: Promise<void> | undefined;
  #disposed = false;

  constructor(runtime: GpuRuntime, context: LoweringContext, options: StepPlansOptions) {
    this.#runtime = runtime;
    this.check = options.checks ? new ProductCheck(runtime) : undefined;
    this.#context = context;
    this.#options = options;
  }

  /** Undefined until a step has wanted it. */
  get library(): MatrixLibrary | undefined {
    return this.#library === "none" ? undefined : this.#library;
  }

  get mayUseLibrary(): boolean {
    return (
      this.#options.library &&
      !this.#context.facts.deterministic &&
      this.#library !== "none" &&
      this.#runtime.mayUse("library")
    );
  }

  /** Where a step of this size wants the library and nobody has yet: resolves when it is open, or found to be absent. */
  opening(size: LaunchSize): Promise<void> | undefined {
    if (this.#library !== undefined || !this.#classOf(size).library) return undefined;
    // One that failed for want of memory may be tried again.
    this.#opening ??= this.#openLibrary().finally(() => (this.#opening = undefined));
    return this.#opening;
  }

  /** The plan for a step of this size; after `opening`. */
  planFor(size: LaunchSize, memory: StepMemory): NamedPlan {
    const wanted = this.#classOf(size);
    const { library } = this;
    if (!wanted.library || library === undefined) return this.#plan({ ...wanted, library: false }, size);
    const found = this.#plan(wanted, size);
    if (!this.#canMultiply(found.plan, size)) return this.#plan({ ...wanted, library: false }, size);
    memory.addLibrary();
    return found;
  }

  /** Under which name a step of this size has its plan; after `opening`. */
  nameFor(size: LaunchSize): string {
    return this.#plan(this.#classOf(size), size).name;
  }

  /** Modules of kernels that a step of this size takes and that are not loaded; after `opening`. */
  missingFor(size: LaunchSize): readonly ModuleRequest[] {
    return this.#plan(this.#classOf(size), size).plan.missing(size);
  }

  /** Has the library choose algorithms for steps of this size and load their kernels; after `opening`. */
  rehearseLibrary(size: LaunchSize, runner: StepRunner, memory: StepMemory): void {
    if (this.library === undefined) return;
    this.planFor(size, memory).plan.rehearseLibrary(size, runner);
  }

  /** Keeps what the library has chosen since the last time. Nobody waits for the disk. */
  keepChoices(): void {
    const kept = this.library?.kept;
    const changed = kept?.choices.changed();
    if (kept !== undefined && changed !== undefined)
      void this.#runtime.kernels.cache.write(this.#choicesKey(kept), changed);
  }

  /** From here on every program on the device computes without it. Nothing that was queued on it is still under way. */
  giveUpLibrary(reason: string): void {
    this.#runtime.giveUp("library", reason);
    this.check?.forget();
    this.library?.[Symbol.dispose]();
    this.#library = "none";
  }

  /** Kernels for single tokens, which every conversation comes to, early and late in it. */
  prepareDecode(): void {
    for (const longest of [1, SPLIT_POSITIONS + 1]) {
      this.#prepare(exactSize({ ...promptSize(1), longest }));
    }
  }

  /** The same for a prompt, from its first token on. */
  preparePrompt(tokens: number): void {
    this.#prepare(promptSize(tokens));
  }

  /** Everything else, when there is time. */
  prepareRest(ahead: KernelsAhead): void {
    for (const size of this.#aheadSizes()) void ahead.add(() => this.missingFor(size));
  }

  unbind(): void {
    for (const plan of this.#plans.values()) plan.unbind();
  }

  [Symbol.dispose](): void {
    this.#disposed = true;
    this.library?.[Symbol.dispose]();
    this.check?.[Symbol.dispose]();
  }

  /** What a conversation by itself grows into comes before company. */
  *#aheadSizes(): IterableIterator<LaunchSize> {
    const { maxTokens, maxOutputs } = this.#context.facts.limits;
    yield* this.#decodeSizes(1);
    for (const tokens of AHEAD_TOKENS.filter((count) => count <= maxTokens)) {
      yield promptSize(tokens);
      if (tokens <= Math.min(maxOutputs, MOST_AHEAD_SEQUENCES)) yield* this.#decodeSizes(tokens);
    }
  }

  /** One token of each sequence, at depths of one split, two, four and so on: attention takes other ways as it grows. */
  *#decodeSizes(sequences: number): IterableIterator<LaunchSize> {
    const most = splitsOf(this.#context.facts.limits.contextTokens);
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
      // Whoever runs the step asks again and sees the failure.
      this.#runtime.kernels.module(file, defines).catch(() => {});
    }
  }

  #classOf(size: LaunchSize): LoweringSize {
    if (this.#context.facts.deterministic) return { tokens: "few", outputs: "few", library: false };
    const rows = rowsClass(size.tokens);
    return {
      tokens: rows,
      outputs: rowsClass(size.outputs),
      library: rows === "large" && this.mayUseLibrary,
      tiled: isTiled(size),
    };
  }

  #plan(wanted: LoweringSize, size: LaunchSize): NamedPlan {
    const context = this.#context.holding(size);
    const name = `${wanted.tokens} ${wanted.outputs} ${wanted.library} ${wanted.tiled} ${context === this.#context.compact}`;
    const known = this.#plans.get(name);
    if (known !== undefined) return { name, plan: known, library: wanted.library };
    const plan = new StepPlan(this.#runtime, lower(context, wanted));
    this.#plans.set(name, plan);
    return { name, plan, library: wanted.library };
  }

  /** Whether the library has an algorithm for every product; one that fails over the question is given up. */
  #canMultiply(plan: StepPlan, size: LaunchSize): boolean {
    const { library } = this;
    if (library === undefined) return false;
    try {
      return plan.libraryShapes(size).every((shape) => library.prepare(shape));
    } catch (error) {
      if (!isMatrixFailure(error)) throw error;
      this.giveUpLibrary(failureReason(error));
      return false;
    }
  }

  async #openLibrary(): Promise<void> {
    const { device, kernels } = this.#runtime;
    await loadMatrixLibrary(device);
    if (this.#disposed || !this.#runtime.isUsable) return;
    const opened = openMatrixLibrary(device);
    this.#library = isUnavailableDriver(opened) ? "none" : opened;
    const kept = this.library?.kept;
    const stored = kept === undefined ? undefined : await kernels.cache.read(this.#choicesKey(kept));
    if (stored !== undefined) kept?.choices.restore(stored);
  }

  /** Algorithms are a library's for one kind of device. */
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

/** Of one sequence's first tokens, with an output for the last of them. */
function promptSize(tokens: number): LaunchSize {
  return exactSize({ tokens, outputs: 1, scored: 1, sequences: 1, tiles: tokens, longest: tokens, longestRun: tokens });
}
