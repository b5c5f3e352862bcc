// What happens before the launches of a step are taken from a plan: modules that have not been checked on this device are
// checked, and if modules have been exchanged since the plan was lowered, it is lowered anew.

import { bucketSize, exactSize } from "../lowering/step-bucket.js";
import type { LaunchSize } from "../lowering/launch.js";
import type { LoweringContext } from "../lowering/context.js";
import type { StepGraphs } from "./step-graphs.js";
import type { UsedModule } from "./step-plan.js";
import type { StepPlans } from "./step-plans.js";

/** Decides before a step whether its kernels can be trusted. */
export interface KernelGate {
  /** Whether a module of this name needs no check any more. */
  isTrusted(name: string): boolean;
  /** Resolves when every module that the step needs is trusted; rejects if there is no right one. */
  admit(step: StepModules): Promise<void>;
}

/** A step that is to be admitted. */
export interface StepModules {
  readonly size: LaunchSize;
  /** Whether the BLAS library computes its large matmuls, if there are any. */
  readonly blas: boolean;
  /** The modules that it needs: others once wrong ones were replaced. */
  needed(): readonly UsedModule[];
}

/** Admits the steps of one program. */
export class StepAdmission {
  readonly #context: LoweringContext;
  readonly #plans: StepPlans;
  readonly #graphs: StepGraphs;
  readonly #gate: KernelGate | undefined;
  #version: number;

  /** Without a gate every step is admitted. */
  constructor(context: LoweringContext, plans: StepPlans, graphs: StepGraphs, gate: KernelGate | undefined) {
    this.#context = context;
    this.#plans = plans;
    this.#graphs = graphs;
    this.#gate = gate;
    this.#version = context.choices.version;
  }

  /** The size that a graph for such a step is captured for; undefined if it has none. */
  bucketOf(size: LaunchSize): LaunchSize | undefined {
    const { regions, options } = this.#context;
    const { maxTokens, maxOutputs } = options.limits;
    return bucketSize(size, { maxTokens: Math.min(maxTokens, regions.attention.tokens), maxOutputs });
  }

  /** Whether kernels were exchanged since launches and graphs were made. */
  get isOutdated(): boolean {
    return this.#context.choices.version !== this.#version;
  }

  /** Drops launches and graphs that were made before kernels were exchanged. */
  followChoices(): void {
    const { version } = this.#context.choices;
    if (version === this.#version) return;
    this.#version = version;
    this.#graphs.clear();
    this.#plans.clear();
  }

  /**
   * Resolves when the step's modules are checked, those of its graph as well; after a prompt also those of the decode step
   * that follows, so that no text is delivered before what computes it was checked.
   */
  async admit(size: LaunchSize): Promise<void> {
    if (this.#gate === undefined) return;
    await this.#admit(this.#gate, size);
    if (size.longestRun > 1 && size.scored > 0) await this.#admit(this.#gate, decodeAfter(size, this.#context));
  }

  async #admit(gate: KernelGate, size: LaunchSize): Promise<void> {
    const bucket = this.bucketOf(size);
    const sizes = bucket === undefined ? [size] : [size, bucket];
    if (sizes.every((each) => this.#plans.missingFor(each).length === 0)) return;
    const needed = (): readonly UsedModule[] => {
      this.followChoices();
      return sizes.flatMap((each) => this.#plans.modulesFor(each));
    };
    if (needed().every(({ name }) => gate.isTrusted(name))) return;
    await gate.admit({ size, blas: this.#plans.blas !== undefined, needed });
    this.followChoices();
  }
}

/** The step that extends a prompt's sequences by a token each. */
function decodeAfter({ scored, longest }: LaunchSize, { options }: LoweringContext): LaunchSize {
  const sequences = { tokens: scored, sequences: scored, outputs: scored, scored, tiles: scored };
  return exactSize({ ...sequences, longest: Math.min(longest + 1, options.limits.contextTokens), longestRun: 1 });
}
