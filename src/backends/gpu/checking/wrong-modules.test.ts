import { expect, it } from "vitest";
import type { UsedModule } from "../execution/step-plan.js";
import { moduleName, type ModuleRequest } from "../kernels/kernel-store.js";
import { KernelChoices } from "../lowering/kernel-choices.js";
import { findWrong, type WrongTrial } from "./wrong-modules.js";

function used(request: ModuleRequest): UsedModule {
  return { ...request, name: moduleName(request), kernels: ["kernel"] };
}

/** A trial of these files, each with a plain module and one with few optimizations, of which `wrong` are wrong. */
function trialOf(files: readonly string[], wrong: readonly string[], trusted: readonly string[] = []): WrongTrial {
  const modules = (choices: KernelChoices): readonly UsedModule[] =>
    files.map((file) => {
      const plain = { file, defines: {} };
      return used(choices.isWrong(plain) ? { file, defines: { CAREFUL: 1 } } : plain);
    });
  return {
    choices: new KernelChoices({ deterministic: false }),
    isTrusted: (name) => trusted.includes(name.trim()),
    modules,
    isRight: async (choices) => !modules(choices).some(({ name }) => wrong.includes(name.trim())),
  };
}

const names = (modules: readonly UsedModule[] | undefined): readonly string[] | undefined =>
  modules?.map(({ name }) => name.trim());

it("names the one module without which a trial is right", async () => {
  const found = await findWrong(trialOf(["a", "b", "c"], ["b"]));
  expect(names(found?.wrong)).toEqual(["b"]);
  expect(names(found?.replacements)).toEqual(["b CAREFUL=1"]);
});

it("suspects trusted modules last, and finds them all the same", async () => {
  const found = await findWrong(trialOf(["a", "b"], ["a"], ["a"]));
  expect(names(found?.wrong)).toEqual(["a"]);
});

it("finds several that are wrong together, and no others", async () => {
  const found = await findWrong(trialOf(["a", "b", "c", "d"], ["b", "d"]));
  expect(names(found?.wrong)).toEqual(["b", "d"]);
});

it("finds nothing if no variant is right", async () => {
  expect(await findWrong(trialOf(["a", "b"], ["b", "b CAREFUL=1"]))).toBeUndefined();
});
