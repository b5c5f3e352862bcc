// One module of every kernel file, from a few small models: for tests that ask whether a file compiles at all.

import { latentCase } from "../../conformance/attention-forms.js";
import { randomModel, type RandomModelSpec } from "../../conformance/models/random-model.js";
import { draftHeadModel, familyModel } from "../../conformance/models/family-model.js";
import { familyCase } from "../../conformance/models/family-shapes.js";
import { synthPlan } from "../../../src/cli/synth/model-plan.js";
import { SHAPES } from "../../../src/cli/synth/shape.js";
import { kernelFiles } from "../../../src/backends/gpu/kernels/kernel-source.js";
import { type KernelModule, kernelModules } from "./kernel-modules.js";
import { draftingModelOf, formModel, modelOf, type RepresentativeModel } from "./representative-models.js";
import { CLANG_TARGETS, NVIDIA_TARGETS, type Target } from "./targets.js";

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

/** Layer norms; experts of plain floats; gated delta nets; Mamba-2. */
const FAMILIES: readonly string[] = ["cohere2", "qwen3moe", "qwen35", "nemotron_h"];
/** Latent attention and quantized experts, with a shared one. */
const PUBLISHED = "glm4.7-flash";

function smallModels(): readonly RepresentativeModel[] {
  const families = FAMILIES.map((family) => {
    const { seed, shape } = familyCase(family, 1);
    return modelOf(family, familyModel(seed, shape));
  });
  const shape = {
    ...SHAPES[PUBLISHED],
    // One that is dense, one with experts over all tokens, and the last, which has few rows.
    layers: 3,
    vocabulary: { ...SHAPES.tinyllama.vocabulary, size: SHAPE.vocabulary },
  };
  return [
    ...MODELS.map((spec) => modelOf(spec.architecture, randomModel(spec))),
    ...families,
    modelOf(PUBLISHED, synthPlan(PUBLISHED, shape, { mix: "Q4_K", seed: 1 })),
    draftingModelOf("draft head", draftHeadModel(1, familyCase("qwen35", 1).shape)),
    // Queries that are joined without a matmul before.
    formModel("latent", latentCase({ heads: 2, latentWidth: 64, rotaryWidth: 16 }, "f16", SHAPE.vocabulary)),
  ];
}

/** By the file's name. Files that the target's architecture does not launch have the module of one that does. */
export function smallModules(target: Target = CLANG_TARGETS[1]): ReadonlyMap<string, KernelModule> {
  const models = smallModels();
  const modules = kernelModules(models, target);
  const others = [...CLANG_TARGETS, ...NVIDIA_TARGETS].flatMap((other) => kernelModules(models, other));
  return new Map(
    kernelFiles().map((file) => {
      const module = [...modules, ...others].find((candidate) => candidate.file === file);
      if (module === undefined) throw new TypeError(`${file}.hip is launched by none of these models`);
      return [file, module];
    }),
  );
}
