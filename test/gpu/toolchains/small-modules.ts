// One module of every kernel file, from a few small models: for tests that ask whether a file compiles at all.

import { randomModel, type RandomModelSpec } from "../../conformance/models/random-model.js";
import { kernelFiles } from "../../../src/backends/gpu/kernels/kernel-source.js";
import { type KernelModule, kernelModules } from "./kernel-modules.js";
import { familyModels, modelOf, publishedModel } from "./representative-models.js";
import { CLANG_TARGETS, type Target } from "./targets.js";

const SHAPE = {
  seed: 1,
  width: 256,
  heads: 4,
  kvHeads: 2,
  feedForward: 512,
  layers: 1,
  vocabulary: 300,
  context: 256,
  epsilon: 1e-5,
} as const;

/** Quantised weights, plain floats, and a family that keeps gate and up in one matrix. */
const MODELS: readonly RandomModelSpec[] = [
  { ...SHAPE, architecture: "llama", types: ["Q4_K", "Q6_K", "Q8_0"] },
  { ...SHAPE, architecture: "qwen2", types: ["F32"] },
  { ...SHAPE, architecture: "glm4", types: ["Q8_0"] },
];

/** Quantized experts, and latent attention. */
const EXPERTS = ["qwen3-30b-a3b", "glm4.7-flash"] as const;

/** By the file's name. */
export function smallModules(target: Target = CLANG_TARGETS[1]): ReadonlyMap<string, KernelModule> {
  const models = [
    ...MODELS.map((spec) => modelOf(spec.architecture, randomModel(spec))),
    ...EXPERTS.map((name) => publishedModel(name, "Q4_K_M")),
    ...familyModels(),
  ];
  const modules = kernelModules(models, target);
  return new Map(
    kernelFiles().map((file) => {
      const module = modules.find((candidate) => candidate.file === file);
      if (module === undefined) throw new TypeError(`${file}.hip is launched by none of these models`);
      return [file, module];
    }),
  );
}
