// A small model with a draft head of each family that has them, and what a program that follows their description has to
// know about it.

import { arr, bool, f32, type GgufEntry, u32 } from "../../../src/gguf/entry.js";
import type { OracleHead } from "./draft-head-oracle.js";
import type { FamilyShape } from "./family-model.js";

const EPSILON = 1e-5;
const ROPE_BASE = 10_000;

const experts = (count: number, used: number): GgufEntry[] => [
  u32("expert_count", count),
  u32("expert_used_count", used),
  u32("expert_feed_forward_length", 32),
];
const DELTA_NET: readonly GgufEntry[] = [
  u32("full_attention_interval", 2),
  u32("ssm.conv_kernel", 4),
  u32("ssm.state_size", 16),
  u32("ssm.group_count", 2),
  u32("ssm.time_step_rank", 4),
  u32("ssm.inner_size", 64),
];
const MAMBA2: readonly GgufEntry[] = [
  u32("ssm.conv_kernel", 4),
  u32("ssm.state_size", 16),
  u32("ssm.group_count", 2),
  u32("ssm.time_step_rank", 4),
  u32("ssm.inner_size", 64),
];
const SECTIONS = arr("rope.dimension_sections", "int32", [2, 2, 2, 0]);
const SHARED = u32("expert_shared_feed_forward_length", 24);

const hybrid = (
  architecture: string,
  keys: readonly GgufEntry[],
  layerTensors: readonly string[] = [],
): FamilyShape => ({
  architecture,
  layers: 4,
  headWidth: 16,
  rotaryWidth: 8,
  normEpsilon: EPSILON,
  ropeBase: ROPE_BASE,
  keys: () => [...DELTA_NET, ...keys],
  layerTensors: () => layerTensors,
});

const gated: Omit<OracleHead, "network"> = {
  block: 4,
  heads: 4,
  kvHeads: 2,
  keyWidth: 16,
  rotaryWidth: 8,
  ropeBase: ROPE_BASE,
  epsilon: EPSILON,
  outputGate: true,
  secondNorm: "post_attention_norm",
  lastNorm: "rms",
};
const mixture = {
  kind: "experts",
  used: 2,
  gating: "softmax",
  renormalize: true,
  scale: 1,
  activation: "swiglu",
} as const;

/** A model with a draft head. */
export interface HeadOfFamily {
  readonly title: string;
  readonly shape: FamilyShape;
  readonly head: OracleHead;
}

/** One of each family. */
export const HEAD_CASES: readonly HeadOfFamily[] = [
  { title: "qwen35", shape: hybrid("qwen35", [SECTIONS]), head: { ...gated, network: { kind: "swiglu" } } },
  {
    title: "qwen35 with tables of the head's own",
    shape: {
      ...hybrid("qwen35", [SECTIONS]),
      tied: true,
      layerTensors: (layer) =>
        layer === gated.block ? ["nextn.embed_tokens.weight", "nextn.shared_head_head.weight"] : [],
    },
    head: { ...gated, network: { kind: "swiglu" } },
  },
  {
    title: "qwen35moe",
    shape: hybrid("qwen35moe", [SECTIONS, ...experts(6, 2), SHARED]),
    head: { ...gated, network: mixture },
  },
  {
    title: "qwen3next",
    shape: hybrid("qwen3next", [...experts(6, 2), SHARED], ["ssm_ba.weight"]),
    head: { ...gated, network: mixture },
  },
  {
    title: "deepseek2 (GLM-4.7-Flash)",
    shape: {
      architecture: "deepseek2",
      kvHeads: 1,
      headWidth: 48,
      valueWidth: 40,
      rotaryWidth: 8,
      normEpsilon: EPSILON,
      ropeBase: ROPE_BASE,
      keys: () => [
        ...experts(6, 2),
        u32("attention.kv_lora_rank", 40),
        u32("attention.q_lora_rank", 24),
        u32("attention.key_length_mla", 24),
        u32("attention.value_length_mla", 16),
        u32("leading_dense_block_count", 1),
        u32("expert_shared_count", 1),
        u32("expert_gating_func", 2),
        bool("expert_weights_norm", true),
        f32("expert_weights_scale", 1.5),
      ],
      layerTensors: () => ["attn_k_b.weight", "exp_probs_b.bias"],
    },
    head: {
      block: 3,
      heads: 4,
      kvHeads: 1,
      keyWidth: 24,
      rotaryWidth: 8,
      ropeBase: ROPE_BASE,
      epsilon: EPSILON,
      latent: { width: 40, valueWidth: 16 },
      secondNorm: "ffn_norm",
      lastNorm: "rms",
      network: { ...mixture, gating: "sigmoid", scale: 1.5 },
    },
  },
  {
    title: "nemotron_h_moe",
    shape: {
      architecture: "nemotron_h_moe",
      layers: 3,
      headWidth: 16,
      normEpsilon: EPSILON,
      keys: () => [
        ...MAMBA2,
        ...experts(6, 2),
        SHARED,
        f32("attention.layer_norm_epsilon", 1e-4),
        arr("attention.head_count_kv", "uint32", [0, 2, 0]),
        arr("feed_forward_length", "uint32", [0, 0, 32]),
        bool("expert_weights_norm", true),
        f32("expert_weights_scale", 2.5),
      ],
      layerTensors: () => ["ssm_conv1d.bias", "ssm_norm.weight", "exp_probs_b.bias"],
    },
    head: {
      block: 3,
      heads: 4,
      kvHeads: 2,
      keyWidth: 16,
      rotaryWidth: 0,
      ropeBase: ROPE_BASE,
      epsilon: EPSILON,
      secondNorm: "post_attention_norm",
      lastNorm: "layer",
      lastEpsilon: 1e-4,
      network: { ...mixture, gating: "sigmoid", scale: 2.5, activation: "relu2" },
    },
  },
];
