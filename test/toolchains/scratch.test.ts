import { expect, it } from "vitest";
import { kernelModules, moduleName } from "./kernel-modules.js";
import { representativeModels } from "./representative-models.js";
import { CLANG_TARGETS, HIPRTC_TARGETS, NVIDIA_TARGETS } from "./targets.js";
it("counts", () => {
  let t = performance.now();
  const models = representativeModels();
  console.log(models.length, performance.now() - t);
  for (const target of [...HIPRTC_TARGETS, ...CLANG_TARGETS, ...NVIDIA_TARGETS]) {
    t = performance.now();
    const modules = kernelModules(models, target);
    const byFile = new Map<string, number>();
    for (const { file } of modules) byFile.set(file, (byFile.get(file) ?? 0) + 1);
    console.log(target.architecture, modules.length, JSON.stringify([...byFile]), performance.now() - t);
    if (target.architecture === "gfx1100") console.log(modules.map(moduleName).join("\n"));
  }
  expect(1).toBe(1);
}, 600_000);
