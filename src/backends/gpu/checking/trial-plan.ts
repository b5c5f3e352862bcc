// Which fragments of a program are computed, and for which sizes of steps, so that given modules run: the smallest steps
// that take them. Pure: everything follows from lowering.

import { type Fragment, fragmentsOf } from "../../../graph/fragments.js";
import type { Program } from "../../../graph/program.js";
import type { UsedModule } from "../execution/step-plan.js";
import type { LaunchSize } from "../lowering/launch.js";
import { checkShapes } from "./check-steps.js";
import { KernelTrial, type TrialHost } from "./kernel-trial.js";

/** A trial with the modules that it runs. */
export interface PlannedTrial {
  readonly trial: KernelTrial;
  readonly modules: readonly UsedModule[];
}

interface TrialPlan {
  readonly trials: readonly PlannedTrial[];
  /** Names of modules that no fragment takes. */
  readonly uncovered: readonly string[];
}

/** The distinct parts of a program for its weights' types. */
export function fragmentsFor({ weights, limits }: TrialHost, program: Program): readonly Fragment[] {
  return fragmentsOf(program, {
    contextTokens: limits.contextTokens,
    describe: (weight) => `${weights[weight].descriptor.layout.name} ${program.weights[weight].isGate ?? false}`,
  });
}

/** Trials of steps that are no larger than one of this size and that run as many of these modules as possible. */
export function planTrials(
  host: TrialHost,
  fragments: readonly Fragment[],
  size: LaunchSize,
  open: readonly UsedModule[],
): TrialPlan {
  const left = new Set(open.map(({ name }) => name));
  const trials: PlannedTrial[] = [];
  for (const shape of checkShapes(size, host.limits)) {
    for (const fragment of fragments) {
      if (left.size === 0) break;
      const trial = new KernelTrial(host, fragment, shape);
      const modules = trial.modules();
      if (!modules.some(({ name }) => left.has(name))) continue;
      for (const { name } of modules) left.delete(name);
      trials.push({ trial, modules });
    }
  }
  return { trials, uncovered: [...left] };
}
