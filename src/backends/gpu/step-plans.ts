// A program's plans, one for each class of step sizes and made when first wanted, with the vendor's library that large
// products go to. Kernels of sizes that have not come yet are made ready meanwhile, the likeliest first.

import { isObstacle } from "./native/driver-library.js";
import type { KernelsAhead } from "./kernels-ahead.js";
import type { LaunchSize } from "./launch.js";
import { type MatrixLibrary, openMatrixLibrary } from "./library/matrix-library.js";
import { failureReason, isMatrixFailure } from "./library/matrix-plan.js";
import { ProductCheck } from "./library/product-check.js";
import type { LoweringContext, LoweringSize } from "./lowering/context.js";
import { isTiled } from "./lowering/attention.js";
import { lower } from "./lowering/lowering.js";
import { rowsClass } from "./matrix-choice.js";
import type { GpuRuntime } from "./runtime.js";
import { exactSize } from "./step-bucket.js";
import { SPLIT_POSITIONS, splitsOf } from "./kv-layout.js";
import type { StepMemory } from "./step-memory.js";
import { StepPlan } from "./step-plan.js";

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
    return this.#options.library && !this.#context.facts.deterministic && this.#library !== "none" && this.#runtime.mayUse("library");
  }

  /** The plan for a step of this size. Opens the library where it is wanted. */
  planFor(size: LaunchSize, memory: StepMemory): NamedPlan {
    const wanted = this.#classOf(size);
    if (!wanted.library || !this.#opensLibrary()) return this.#plan({ ...wanted, library: false }, size);
    const found = this.#plan(wanted, size);
    if (!this.#canMultiply(found.plan, size)) return this.#plan({ ...wanted, library: false }, size);
    memory.addLibrary();
    return found;
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
    for (const size of this.#aheadSizes()) ahead.add(() => this.#plan(this.#classOf(size), size).plan.missing(size));
  }

  unbind(): void {
    for (const plan of this.#plans.values()) plan.unbind();
  }

  [Symbol.dispose](): void {
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
      yield exactSize({ ...promptSize(sequences), outputs: sequences, scored: sequences, sequences, longest: splits * SPLIT_POSITIONS, longestRun: 1 });
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
    return { tokens: rows, outputs: rowsClass(size.outputs), library: rows === "large" && this.mayUseLibrary, tiled: isTiled(size) };
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

  #opensLibrary(): boolean {
    if (this.#library === undefined) {
      const opened = openMatrixLibrary(this.#runtime.device);
      this.#library = isObstacle(opened) ? "none" : opened;
    }
    return this.#library !== "none";
  }
}

/** Of one sequence's first tokens, with an output for the last of them. */
function promptSize(tokens: number): LaunchSize {
  return exactSize({ tokens, outputs: 1, scored: 1, sequences: 1, tiles: tokens, longest: tokens, longestRun: tokens });
}
