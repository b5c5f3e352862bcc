// The random models that are compared with llama.cpp: every block type in every family, and the odd shapes, biases, rope
// scalings and layouts that files in the wild have. Row lengths are multiples of 256 wherever the type needs it.

import { arr, f32, str, u32, type GgufEntry } from "../../../src/gguf/entry.js";
import { layoutByName, SUPPORTED, type SupportedTypeName } from "../../../src/quant/layout.js";
import { Dice } from "../../support/dice.js";
import type { RandomModelSpec } from "./random-model.js";

export interface RandomCase {
  readonly name: string;
  readonly spec: RandomModelSpec;
}

/** The families whose files are varied alike; Gemma has cases of its own in gemma-cases.ts. */
type Architecture = Exclude<RandomModelSpec["architecture"], "gemma2" | "gemma3">;

export const FAMILIES: readonly Architecture[] = ["llama", "qwen2", "qwen3", "glm4"];

/** What a family's files usually have. */
const USUAL: { readonly [K in Architecture]: Partial<RandomModelSpec> } = {
  llama: { ropeBase: 500_000 },
  qwen2: { biases: ["attn_q", "attn_k", "attn_v"], ropeBase: 1_000_000 },
  qwen3: { headWidth: 64, ropeBase: 1_000_000 },
  glm4: { rotaryWidth: 32, biases: ["attn_q", "attn_k", "attn_v"] },
};

/** By name, so that a new case leaves the others as they are (FNV-1a). */
export function seedOf(name: string): number {
  let hash = 0x811c9dc5;
  for (const byte of Buffer.from(name)) hash = Math.imul(hash ^ byte, 0x01000193) >>> 0;
  return hash;
}

const SMALL = {
  types: ["F32"],
  width: 256,
  heads: 4,
  kvHeads: 2,
  feedForward: 512,
  layers: 2,
  vocabulary: 320,
  context: 512,
  epsilon: 1e-5,
} as const;

function variant(architecture: Architecture, name: string, changes: Partial<RandomModelSpec> = {}): RandomCase {
  const fullName = `${architecture}, ${name}`;
  return {
    name: fullName,
    spec: { seed: seedOf(fullName), architecture, ...SMALL, ...USUAL[architecture], ...changes },
  };
}

/** Every family with every type. */
export const TYPE_CASES: readonly (RandomCase & { readonly type: SupportedTypeName })[] = SUPPORTED.flatMap(
  ({ name: type }) => FAMILIES.map((family) => ({ ...variant(family, type, { types: [type] }), type })),
);

function scaling(
  family: Architecture,
  kind: string | undefined,
  factor: number | undefined,
  more: readonly GgufEntry[] = [],
): readonly GgufEntry[] {
  return [
    ...(kind === undefined ? [] : [str(`${family}.rope.scaling.type`, kind)]),
    ...(factor === undefined ? [] : [f32(`${family}.rope.scaling.factor`, factor)]),
    ...more,
  ];
}

const ODD = {
  width: 60,
  heads: 3,
  kvHeads: 1,
  feedForward: 100,
  vocabulary: 301,
  types: ["F32", "F16", "BF16"],
} as const;
const EVERYWHERE = ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"] as const;
const MIXED = ["Q4_K", "Q6_K", "Q8_0", "Q5_K", "Q3_K", "IQ4_XS", "Q2_K", "MXFP4"] as const;

export const SHAPE_CASES: readonly RandomCase[] = [
  ...FAMILIES.map((family) => variant(family, "types mixed in one file", { types: MIXED })),
  ...FAMILIES.map((family) => variant(family, "one key head for all", { kvHeads: 1 })),
  ...FAMILIES.map((family) => variant(family, "a key head for each head", { kvHeads: 4 })),
  ...FAMILIES.map((family) => variant(family, "tied embeddings", { tied: true, types: ["Q8_0"] })),
  ...FAMILIES.map((family) =>
    variant(family, "queries, keys and values in one product", { fusedQkv: true, biases: ["attn_qkv"] }),
  ),
  ...FAMILIES.map((family) =>
    variant(family, "one product without biases", { fusedQkv: true, biases: [], types: ["Q6_K"] }),
  ),
  ...FAMILIES.map((family) => variant(family, "one layer", { layers: 1 })),
  ...FAMILIES.map((family) => variant(family, "five layers", { layers: 5, types: ["Q4_K", "Q6_K"] })),
  ...FAMILIES.map((family) => variant(family, "a large epsilon", { epsilon: 0.05 })),
  ...FAMILIES.map((family) => variant(family, "a small rope base", { ropeBase: 100 })),
  ...FAMILIES.map((family) => variant(family, "linear scaling", { metadata: scaling(family, "linear", 4) })),
  ...FAMILIES.map((family) =>
    variant(family, "a factor and no scaling type", { metadata: scaling(family, undefined, 2.5) }),
  ),
  ...FAMILIES.map((family) =>
    variant(family, "the old key for linear scaling", { metadata: [f32(`${family}.rope.scale_linear`, 3)] }),
  ),
  ...FAMILIES.map((family) =>
    variant(family, "scaling type none with a factor", { metadata: scaling(family, "none", 8) }),
  ),
  ...FAMILIES.map((family) =>
    variant(family, "YaRN", {
      ropeBase: 10_000,
      metadata: scaling(family, "yarn", 4, [u32(`${family}.rope.scaling.original_context_length`, 128)]),
    }),
  ),
  ...FAMILIES.map((family) =>
    variant(family, "YaRN with an attention factor", {
      metadata: scaling(family, "yarn", 8, [
        u32(`${family}.rope.scaling.original_context_length`, 64),
        f32(`${family}.rope.scaling.attn_factor`, 0.7),
      ]),
    }),
  ),
  ...FAMILIES.map((family) =>
    variant(family, "YaRN without an original context", { metadata: scaling(family, "yarn", 3) }),
  ),
  ...FAMILIES.map((family) => variant(family, "YaRN that shrinks", { metadata: scaling(family, "yarn", 0.5) })),
  ...FAMILIES.map((family) =>
    variant(family, "YaRN with the keys that only other families read", {
      metadata: scaling(family, "yarn", 4, [
        f32(`${family}.rope.scaling.yarn_ext_factor`, 0.5),
        f32(`${family}.rope.scaling.yarn_attn_factor`, 0.5),
        f32(`${family}.rope.scaling.yarn_beta_fast`, 8),
        f32(`${family}.rope.scaling.yarn_beta_slow`, 2),
        f32(`${family}.rope.scaling.yarn_log_multiplier`, 0.1),
        u32(`${family}.rope.scaling.original_context_length`, 128),
      ]),
    }),
  ),
  ...FAMILIES.map((family) =>
    variant(family, "the numbers llama.cpp itself writes for nothing", {
      metadata: [
        f32(`${family}.rope.scaling.yarn_ext_factor`, -1),
        f32(`${family}.rope.scaling.yarn_log_multiplier`, 0),
        f32(`${family}.attention.scale`, 0),
        u32(`${family}.expert_count`, 0),
        u32(`${family}.attention.sliding_window`, 0),
      ],
    }),
  ),
  ...FAMILIES.map((family) =>
    variant(family, "an attention factor with linear scaling", {
      metadata: scaling(family, "linear", 2, [f32(`${family}.rope.scaling.attn_factor`, 1.2)]),
    }),
  ),
  ...FAMILIES.map((family) =>
    variant(family, "an attention scale, which only other families read", {
      metadata: [f32(`${family}.attention.scale`, 0.5)],
    }),
  ),
  ...FAMILIES.map((family) =>
    variant(family, "numbers given per layer", {
      metadata: [
        arr(`${family}.attention.head_count`, "int32", [4, 4]),
        arr(`${family}.feed_forward_length`, "int32", [512, 512]),
      ],
    }),
  ),
  variant("llama", "odd sizes", { ...ODD }),
  variant("qwen2", "odd sizes", { ...ODD }),
  variant("qwen3", "odd sizes", { ...ODD, headWidth: 20 }),
  variant("glm4", "odd sizes", { ...ODD, rotaryWidth: 10 }),
  variant("llama", "heads wider than their share", { headWidth: 128 }),
  variant("llama", "heads narrower than their share", { headWidth: 32, kvHeads: 4, width: 256, types: ["Q8_0"] }),
  variant("qwen3", "heads wider than their share", { headWidth: 128, types: ["Q4_K"] }),
  variant("qwen3", "heads narrower than their share", { headWidth: 16 }),
  variant("glm4", "heads wider than their share", { headWidth: 128, rotaryWidth: 64 }),
  variant("llama", "biases everywhere", { biases: EVERYWHERE }),
  variant("qwen2", "a bias on the output", { biases: ["attn_q", "attn_k", "attn_v", "output"] }),
  variant("qwen2", "a bias on a tied output", { biases: ["attn_q", "attn_k", "attn_v", "output"], tied: true }),
  variant("qwen2", "no biases", { biases: [] }),
  variant("qwen3", "biases as Qwen 2 has them", { biases: ["attn_q", "attn_k", "attn_v"] }),
  variant("glm4", "no biases", { biases: [] }),
  variant("glm4", "whole heads rotated", { rotaryWidth: 64 }),
  variant("glm4", "an odd share of each head rotated", { rotaryWidth: 22 }),
  variant("glm4", "sections of a multimodal rope", {
    metadata: [arr("glm4.rope.dimension_sections", "int32", [6, 5, 5, 0])],
  }),
  variant("glm4", "a block that predicts further tokens", { predictingLayers: 1 }),
  variant("llama", "frequency factors", { ropeFactors: true }),
  variant("llama", "frequency factors and linear scaling", {
    ropeFactors: true,
    metadata: scaling("llama", "linear", 2),
  }),
  variant("llama", "frequency factors and YaRN", {
    ropeFactors: true,
    ropeBase: 10_000,
    metadata: scaling("llama", "yarn", 4, [u32("llama.rope.scaling.original_context_length", 128)]),
  }),
  variant("llama", "scales of 4-bit floats", { types: ["NVFP4"], scales: EVERYWHERE }),
  variant("qwen3", "scales of 4-bit floats", { types: ["NVFP4"], scales: EVERYWHERE }),
  variant("qwen2", "scales of 4-bit floats in attention", {
    types: ["NVFP4"],
    scales: ["attn_q", "attn_k", "attn_v", "attn_output"],
  }),
  variant("glm4", "scales of 4-bit floats in attention", {
    types: ["NVFP4"],
    scales: ["attn_q", "attn_k", "attn_v", "attn_output"],
  }),
];

/** A model nobody thought of: every number and choice drawn, within what llama.cpp accepts. */
export function drawnCase(seed: number): RandomCase {
  const dice = new Dice(seed);
  const pick = <Item>(items: readonly Item[]): Item => items[dice.below(items.length)];
  const architecture = pick(FAMILIES);
  const types = Array.from({ length: 1 + dice.below(3) }, () => pick(SUPPORTED).name);
  const unit = Math.max(...types.map((type) => layoutByName(type).blockElements));
  const heads = pick([1, 2, 4, 8]);
  // Few large blocks or many small ones to a row, so that no model is large.
  const blocks = (): number => 1 + dice.below(unit === 1 ? 64 : Math.max(1, 128 / unit) * 2);
  const headWidth = Math.max(2, unit / heads) * blocks() * (unit === 1 ? 2 : 1);
  const ownWidth = architecture !== "qwen2" && dice.below(2) === 0;
  const width = ownWidth ? unit * blocks() : heads * headWidth;
  const part = pick(["none", "linear", "yarn", undefined]);
  const metadata = scaling(architecture, part, dice.between(0.7, 9), [
    ...(dice.below(2) === 0 ? [u32(`${architecture}.rope.scaling.original_context_length`, 32 + dice.below(400))] : []),
    ...(dice.below(3) === 0 ? [f32(`${architecture}.rope.scaling.attn_factor`, dice.between(0.7, 1.4))] : []),
  ]);
  const fusedQkv = dice.below(4) === 0;
  const biased = dice.below(2) === 0;
  const spec: RandomModelSpec = {
    seed,
    architecture,
    types,
    width,
    heads,
    kvHeads: pick([1, 2, 4, 8].filter((count) => heads % count === 0)),
    ...(ownWidth ? { headWidth } : {}),
    feedForward: unit * blocks(),
    layers: 1 + dice.below(3),
    vocabulary: 260 + dice.below(200),
    context: 64 + dice.below(1000),
    epsilon: pick([1e-6, 1e-5, 1e-2]),
    ropeBase: pick([200, 10_000, 500_000, 1_000_000]),
    ...(architecture === "glm4" ? { rotaryWidth: 2 * (1 + dice.below(headWidth / 2)) } : {}),
    ropeFactors: architecture === "llama" && dice.below(2) === 0,
    tied: dice.below(2) === 0,
    fusedQkv,
    biases: biased ? (fusedQkv ? ["attn_qkv"] : ["attn_q", "attn_k", "attn_v"]) : [],
    metadata: dice.below(2) === 0 ? metadata : [],
  };
  return { name: `drawn with seed ${seed}: ${architecture}, ${types.join(" ")}`, spec };
}
