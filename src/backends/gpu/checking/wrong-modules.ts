// Finds the module that makes a trial wrong: each is exchanged for its next variant, other parameters first and then the
// same source compiled with few optimizations, until the trial is right. If no single one helps, all suspects are exchanged
// at once, and those that make no difference are put back.

import type { UsedModule } from "../execution/step-plan.js";
import type { KernelChoices } from "../lowering/kernel-choices.js";

/** Variants of one module that are tried: other parameters twice, then few optimizations. */
const MAX_VARIANTS = 4;

/** A trial that is wrong. */
export interface WrongTrial {
  /** The choices with which it is wrong; they are not changed. */
  readonly choices: KernelChoices;
  isTrusted(name: string): boolean;
  modules(choices: KernelChoices): readonly UsedModule[];
  isRight(choices: KernelChoices): Promise<boolean>;
}

/** Modules that are wrong, and what takes their places. */
export interface WrongModules {
  readonly wrong: readonly UsedModule[];
  readonly replacements: readonly UsedModule[];
}

/** The modules without which the trial is right; undefined if there are none. */
export async function findWrong(trial: WrongTrial): Promise<WrongModules | undefined> {
  const used = trial.modules(trial.choices);
  const isTrusted = ({ name }: UsedModule): boolean => trial.isTrusted(name);
  const suspects = used.filter((module) => !isTrusted(module));
  const order = [...suspects, ...used.filter(isTrusted)];
  for (const suspect of order) {
    const found = await exchanged(trial, [suspect]);
    if (found !== undefined) return found;
  }
  for (const together of suspects.length < used.length ? [suspects, used] : [used]) {
    if (together.length > 1 && (await exchanged(trial, together)) !== undefined) return await fewest(trial, together);
  }
  return undefined;
}

/** Exchanges modules for their next variants until the trial is right; undefined if it never is. */
async function exchanged(trial: WrongTrial, modules: readonly UsedModule[]): Promise<WrongModules | undefined> {
  const choices = trial.choices.with(new Map());
  const before = new Set(trial.modules(trial.choices).map(({ name }) => name));
  const wrong: UsedModule[] = [...modules];
  for (const module of modules) choices.avoid(module);
  for (let variant = 0; variant < MAX_VARIANTS; variant++) {
    const used = trial.modules(choices);
    // Some modules have no other variant.
    if (used.some(({ name }) => wrong.some((module) => module.name === name))) return undefined;
    const replacements = used.filter(({ name }) => !before.has(name));
    if (await trial.isRight(choices)) return { wrong, replacements };
    if (replacements.length === 0) return undefined;
    wrong.push(...replacements);
    for (const module of replacements) choices.avoid(module);
  }
  return undefined;
}

/** Puts back every module without which the trial is right as well. */
async function fewest(trial: WrongTrial, modules: readonly UsedModule[]): Promise<WrongModules | undefined> {
  let needed = modules;
  let found = await exchanged(trial, needed);
  for (const module of modules) {
    const others = needed.filter((other) => other !== module);
    if (others.length === 0) continue;
    const without = await exchanged(trial, others);
    if (without === undefined) continue;
    needed = others;
    found = without;
  }
  return found;
}
