// Random models of every family against llama.cpp: drawn shapes, and chosen ones that golden files lack: heads of 512, latent
// attention of 576 and 512, many experts, odd numbers of heads.

import { afterAll, describe, expect, it } from "vitest";
import { ARCHITECTURES } from "../../src/architectures/registry.js";
import { arr, bool, f32, type GgufEntry, str, u32 } from "../../src/gguf/entry.js";
import { writeGguf } from "../../src/gguf/writer.js";
import { Model } from "../../src/model/model.js";
import { familyModel, type FamilyShape } from "../conformance/models/family-model.js";
import { FAMILY_NAMES, familyCase } from "../conformance/models/family-shapes.js";
import { distance } from "../conformance/models/log-probabilities.js";
import { seedOf } from "../conformance/models/random-cases.js";
import { randomTokens } from "../conformance/models/random-model.js";
import { tableGeluBackend } from "../conformance/models/table-gelu.js";
import { TemporaryFolder } from "../support/temporary-folder.js";
import { peerIsInstalled } from "./llama-cpp.js";
import { peerLogits } from "./peer-logits.js";

const EXACT = 2e-3;
/** With GELU from a table of 16-bit floats: an argument on the edge between two entries takes either, in every layer. */
const TABLE_MEAN = 3e-3;
const TOKENS = 60;

const experts = (count: number, used: number, width: number): GgufEntry[] => [
  u32("expert_count", count),
  u32("expert_used_count", used),
  u32("expert_feed_forward_length", width),
];
const LATENT: readonly GgufEntry[] = [
  u32("attention.kv_lora_rank", 512),
  u32("attention.key_length_mla", 192),
  u32("attention.value_length_mla", 128),
  u32("leading_dense_block_count", 1),
  u32("expert_shared_count", 1),
  bool("expert_weights_norm", true),
  f32("expert_weights_scale", 1.5),
];
const SECTIONS = arr("rope.dimension_sections", "int32", [3, 3, 2, 0]);
const biases = (): string[] => ["attn_q.bias", "attn_k.bias", "attn_v.bias"];

/** Numbers of gated delta nets; `valueHeads` for each key head. */
const deltaNets = (taps: number, headWidth: number, keyHeads: number, valueHeads: number): GgufEntry[] => [
  u32("ssm.conv_kernel", taps),
  u32("ssm.state_size", headWidth),
  u32("ssm.group_count", keyHeads),
  u32("ssm.time_step_rank", keyHeads * valueHeads),
  u32("ssm.inner_size", keyHeads * valueHeads * headWidth),
];
/** Numbers of Mamba-2 layers; `heads` for each group. */
const mamba2 = (taps: number, state: number, groups: number, heads: number, headWidth: number): GgufEntry[] => [
  u32("ssm.conv_kernel", taps),
  u32("ssm.state_size", state),
  u32("ssm.group_count", groups),
  u32("ssm.time_step_rank", groups * heads),
  u32("ssm.inner_size", groups * heads * headWidth),
];
const MAMBA2_TENSORS = (): string[] => ["ssm_conv1d.bias", "ssm_norm.weight"];

/** Hybrids with kernels, states, groups and orders of layers that no published model has. */
const UNUSUAL_HYBRIDS: readonly (FamilyShape & { readonly title: string })[] = [
  {
    title: "qwen35 with 5 value heads per key head, 8 taps and layers by list",
    architecture: "qwen35",
    layers: 5,
    headWidth: 16,
    normEpsilon: 1e-6,
    keys: () => [
      ...deltaNets(8, 20, 3, 5),
      arr("attention.recurrent_layers", "bool", [false, true, true, false, true]),
      SECTIONS,
    ],
  },
  {
    title: "qwen35 with heads of 100 and 2 taps, tied",
    architecture: "qwen35",
    layers: 4,
    heads: 3,
    kvHeads: 1,
    headWidth: 16,
    tied: true,
    normEpsilon: 1e-6,
    keys: () => [...deltaNets(2, 100, 2, 1), u32("full_attention_interval", 3), SECTIONS],
  },
  {
    title: "qwen3next with 8 value heads per key head and fused projections",
    architecture: "qwen3next",
    layers: 4,
    headWidth: 24,
    normEpsilon: 1e-6,
    keys: () => [
      ...deltaNets(5, 12, 2, 8),
      u32("full_attention_interval", 2),
      ...experts(7, 3, 24),
      u32("expert_shared_feed_forward_length", 40),
    ],
    layerTensors: () => ["ssm_ba.weight", "ssm_in.weight"],
  },
  {
    title: "nemotron_h with 3 groups of 5 heads, 7 taps and a state of 20",
    architecture: "nemotron_h",
    layers: 5,
    headWidth: 24,
    keys: () => [
      ...mamba2(7, 20, 3, 5, 12),
      f32("attention.layer_norm_epsilon", 1e-4),
      arr("attention.head_count_kv", "uint32", [0, 2, 2, 0, 0]),
      arr("feed_forward_length", "uint32", [56, 0, 0, 0, 24]),
    ],
    layerTensors: MAMBA2_TENSORS,
  },
  {
    title: "falcon-h1 with a group for each head, 2 taps and a state of 4",
    architecture: "falcon-h1",
    headWidth: 16,
    keys: () => mamba2(2, 4, 4, 1, 20),
    layerTensors: () => [...MAMBA2_TENSORS(), "ffn_norm"],
  },
  {
    title: "mamba2 with a state of 256 and 3 taps",
    architecture: "mamba2",
    keys: () => mamba2(3, 256, 1, 5, 8),
    layerTensors: MAMBA2_TENSORS,
  },
  {
    title: "granitehybrid with one wide head, attention first and last",
    architecture: "granitehybrid",
    layers: 4,
    keys: () => [
      ...mamba2(5, 48, 1, 1, 128),
      arr("attention.head_count_kv", "uint32", [2, 0, 0, 2]),
      f32("logit_scale", 1.5),
      f32("residual_scale", 0.6),
    ],
    layerTensors: MAMBA2_TENSORS,
  },
  {
    title: "lfm2 with 9 taps, attention first",
    architecture: "lfm2",
    layers: 4,
    tied: true,
    keys: () => [u32("shortconv.l_cache", 9), arr("attention.head_count_kv", "uint32", [4, 0, 0, 4])],
  },
];

const CASES: readonly (FamilyShape & { readonly title: string })[] = [
  ...UNUSUAL_HYBRIDS,
  { title: "qwen3vl", architecture: "qwen3vl", headWidth: 16, keys: () => [SECTIONS] },
  {
    title: "qwen3vlmoe",
    architecture: "qwen3vlmoe",
    headWidth: 16,
    keys: () => [SECTIONS, ...experts(6, 3, 32)],
  },
  { title: "ernie4_5", architecture: "ernie4_5", tied: true },
  { title: "hunyuan-dense", architecture: "hunyuan-dense", headWidth: 16, tied: true },
  {
    title: "mistral4 with temperature",
    architecture: "mistral4",
    kvHeads: 1,
    headWidth: 576,
    valueWidth: 512,
    rotaryWidth: 64,
    keys: () => [
      ...experts(8, 2, 32),
      ...LATENT,
      u32("attention.q_lora_rank", 48),
      u32("expert_gating_func", 1),
      f32("attention.temperature_scale", 0.3),
      u32("attention.temperature_length", 16),
      str("rope.scaling.type", "yarn"),
      f32("rope.scaling.factor", 4),
      u32("rope.scaling.original_context_length", 64),
      f32("rope.scaling.yarn_log_multiplier", 0.1),
    ],
    layerTensors: () => ["attn_k_b.weight"],
  },
  {
    title: "deepseek2 with latents of 576 and 512, 5 heads",
    architecture: "deepseek2",
    heads: 5,
    kvHeads: 1,
    headWidth: 576,
    valueWidth: 512,
    rotaryWidth: 64,
    keys: () => [
      ...experts(16, 3, 32),
      ...LATENT,
      u32("attention.q_lora_rank", 48),
      u32("expert_gating_func", 2),
      u32("expert_group_count", 4),
      u32("expert_group_used_count", 2),
    ],
    layerTensors: () => ["attn_k_b.weight", "exp_probs_b.bias"],
  },
  {
    title: "deepseek2 with YaRN and no multiplier",
    architecture: "deepseek2",
    kvHeads: 1,
    headWidth: 576,
    valueWidth: 512,
    rotaryWidth: 64,
    keys: () => [
      ...experts(8, 2, 32),
      ...LATENT,
      u32("attention.q_lora_rank", 48),
      u32("expert_gating_func", 2),
      str("rope.scaling.type", "yarn"),
      f32("rope.scaling.factor", 4),
      u32("rope.scaling.original_context_length", 64),
    ],
    layerTensors: () => ["attn_k_b.weight"],
  },
  {
    title: "qwen3 with heads of 512",
    architecture: "qwen3",
    heads: 2,
    kvHeads: 1,
    headWidth: 512,
  },
  {
    title: "gemma4 with heads of 512 and 256",
    architecture: "gemma4",
    layers: 6,
    heads: 2,
    kvHeads: 1,
    headWidth: 512,
    tied: true,
    tensors: ["rope_freqs.weight"],
    keys: () => [
      arr("attention.sliding_window_pattern", "bool", [true, true, true, false, true, false]),
      u32("attention.sliding_window", 16),
      u32("attention.key_length_swa", 256),
      u32("attention.value_length_swa", 256),
      u32("rope.dimension_count_swa", 256),
      f32("rope.freq_base_swa", 5_000),
      u32("attention.shared_kv_layers", 2),
      u32("embedding_length_per_layer_input", 16),
    ],
    layerTensors: () => ["attn_v.weight", "layer_output_scale.weight"],
  },
  {
    title: "qwen3moe with 128 experts",
    architecture: "qwen3moe",
    headWidth: 32,
    keys: () => experts(128, 8, 32),
  },
  {
    title: "qwen3moe with groups",
    architecture: "qwen3moe",
    headWidth: 32,
    keys: () => [...experts(24, 5, 32), u32("expert_group_count", 6), u32("expert_group_used_count", 3)],
  },
  {
    title: "gpt-oss with 7 query heads per KV head",
    architecture: "gpt-oss",
    heads: 14,
    kvHeads: 2,
    headWidth: 16,
    keys: () => [...experts(5, 2, 32), u32("attention.sliding_window", 7)],
    layerTensors: () => [
      ...biases(),
      "attn_output.bias",
      "ffn_gate_inp.bias",
      "ffn_gate_exps.bias",
      "ffn_up_exps.bias",
      "ffn_down_exps.bias",
    ],
  },
  {
    title: "granitemoe with a shared expert",
    architecture: "granitemoe",
    feedForward: 32,
    keys: () => [
      ...experts(6, 2, 32),
      u32("expert_shared_feed_forward_length", 48),
      f32("attention.scale", 0.2),
      f32("embedding_scale", 3),
      f32("residual_scale", 0.5),
      f32("logit_scale", 2),
    ],
  },
  {
    title: "mistral3 with experts",
    architecture: "mistral3",
    feedForward: 32,
    headWidth: 16,
    keys: () => [...experts(6, 2, 32), f32("attention.temperature_scale", 0.2)],
  },
];

const SHAPES_PER_FAMILY = Number(process.env["ROCMFORGE_DRAWN_SHAPES"] ?? 6);
const DRAWN = FAMILY_NAMES.flatMap((family) =>
  Array.from({ length: SHAPES_PER_FAMILY }, (_, number) => familyCase(family, number)),
);

const folder = new TemporaryFolder();
afterAll(() => folder[Symbol.dispose]());

async function ourLogits(path: string, tokens: Int32Array): Promise<Float32Array> {
  await using model = await Model.open(path, tableGeluBackend(), { contextTokens: tokens.length });
  return await model.logits(tokens);
}

async function compare(seed: number, shape: FamilyShape): Promise<void> {
  const { vocabularySize = 300 } = shape;
  const path = folder.file("family.gguf");
  await writeGguf(path, familyModel(seed, shape));
  const tokens = randomTokens(seed, TOKENS);
  const ours = await ourLogits(path, tokens);
  const { largest, mean } = distance(ours, await peerLogits(path, tokens, vocabularySize), vocabularySize);
  if (shape.architecture.startsWith("gemma")) expect(mean).toBeLessThan(TABLE_MEAN);
  else expect(largest).toBeLessThan(EXACT);
  expect(ours.reduce((most, logit) => Math.max(most, Math.abs(logit)), 0)).toBeGreaterThan(0.5);
}

it("draws files of every family", () => {
  const drawn = new Set(FAMILY_NAMES.map((family) => familyCase(family, 0).shape.architecture));
  expect([...drawn].toSorted()).toEqual(ARCHITECTURES.map(({ name }) => name).toSorted());
});

describe.skipIf(!peerIsInstalled)("against llama.cpp (skipped if bench/peers is not installed)", () => {
  it.each(CASES)("$title", async ({ title, ...shape }) => {
    await compare(seedOf(title), shape);
  });

  it.each(DRAWN)("$name", async ({ seed, shape }) => {
    await compare(seed, shape);
  });
});
