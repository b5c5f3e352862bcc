// The shapes of mixtures of experts and of models with sliding windows, from their published configurations.

import { arr, f32, type GgufEntry, str, u32 } from "../../gguf/entry.js";
import type { ModelShape, VocabularyShape } from "./shape.js";

const QWEN3_VOCABULARY: VocabularyShape = {
  kind: "bpe",
  pre: "qwen2",
  size: 151_936,
  merges: 151_387,
  control: { 151_643: "<|endoftext|>", 151_644: "<|im_start|>", 151_645: "<|im_end|>" },
  bos: 151_643,
  eos: 151_645,
  addsBos: false,
};

const QWEN35_VOCABULARY: VocabularyShape = {
  kind: "bpe",
  pre: "qwen35",
  size: 248_320,
  merges: 247_587,
  control: { 248_044: "<|endoftext|>", 248_045: "<|im_start|>", 248_046: "<|im_end|>" },
  bos: 248_044,
  eos: 248_046,
  addsBos: false,
};

const GPT_OSS_VOCABULARY: VocabularyShape = {
  kind: "bpe",
  pre: "gpt-4o",
  size: 201_088,
  merges: 199_742,
  control: { 199_998: "<|startoftext|>", 199_999: "<|endoftext|>", 200_002: "<|return|>", 200_006: "<|start|>" },
  bos: 199_998,
  eos: 200_002,
  addsBos: false,
};

const GLM_VOCABULARY: VocabularyShape = {
  kind: "bpe",
  pre: "glm4",
  size: 154_880,
  merges: 154_820,
  control: { 154_820: "<|endoftext|>", 154_827: "<|user|>", 154_828: "<|assistant|>" },
  bos: 154_820,
  eos: 154_820,
  addsBos: false,
};

const gemmaVocabulary = (size: number): VocabularyShape => ({
  kind: "spm",
  size,
  control: { 1: "<eos>", 2: "<bos>" },
  bos: 2,
  eos: 1,
  addsBos: true,
});

const expertKeys = (count: number, used: number, width: number): GgufEntry[] => [
  u32("expert_count", count),
  u32("expert_used_count", used),
  u32("expert_feed_forward_length", width),
];

/** Biases of attention and experts, sinks: tensors that the graph of gpt-oss uses if they are there. */
const GPT_OSS_TENSORS = [
  "attn_q.bias",
  "attn_k.bias",
  "attn_v.bias",
  "attn_output.bias",
  "ffn_gate_inp.bias",
  "ffn_gate_exps.bias",
  "ffn_up_exps.bias",
  "ffn_down_exps.bias",
];

/** Every sixth layer of Gemma is a full one. */
const isFull = (layer: number): boolean => layer % 6 === 5;
const GEMMA4_SCALES = ["ffn_gate_inp.weight", "ffn_gate_up_exps.weight", "ffn_down_exps.scale"];

/** Gated delta nets with heads of 128 columns, and attention in every fourth layer. */
const deltaNetKeys = (keyHeads: number, valueHeads: number): GgufEntry[] => [
  u32("full_attention_interval", 4),
  arr("rope.dimension_sections", "int32", [11, 11, 10, 0]),
  u32("ssm.conv_kernel", 4),
  u32("ssm.state_size", 128),
  u32("ssm.group_count", keyHeads),
  u32("ssm.time_step_rank", valueHeads),
  u32("ssm.inner_size", 128 * valueHeads),
];

/** Models of 2025 and 2026 by name. */
export const RECENT_SHAPES = {
  "qwen3-30b-a3b": {
    title: "Qwen3-30B-A3B",
    architecture: "qwen3moe",
    layers: 48,
    width: 2048,
    heads: 32,
    kvHeads: 4,
    headWidth: 128,
    feedForward: 6144,
    context: 40_960,
    normEpsilon: 1e-6,
    ropeBase: 1_000_000,
    tied: false,
    keys: () => expertKeys(128, 8, 768),
    vocabulary: QWEN3_VOCABULARY,
  },
  "qwen3-4b-a1b": {
    title: "Qwen3 mixture of 4B, 1B active",
    architecture: "qwen3moe",
    layers: 16,
    width: 2048,
    heads: 32,
    kvHeads: 4,
    headWidth: 128,
    feedForward: 6144,
    context: 40_960,
    normEpsilon: 1e-6,
    ropeBase: 1_000_000,
    tied: false,
    keys: () => expertKeys(32, 4, 1024),
    vocabulary: QWEN3_VOCABULARY,
  },
  "qwen35-35b-a3b": {
    title: "Qwen3.5-35B-A3B",
    architecture: "qwen35moe",
    layers: 40,
    width: 2048,
    heads: 16,
    kvHeads: 2,
    headWidth: 256,
    rotaryWidth: 64,
    feedForward: 512,
    context: 262_144,
    normEpsilon: 1e-6,
    ropeBase: 10_000_000,
    tied: false,
    keys: () => [...expertKeys(256, 8, 512), u32("expert_shared_feed_forward_length", 512), ...deltaNetKeys(16, 32)],
    vocabulary: QWEN35_VOCABULARY,
  },
  "qwen35-0.8b": {
    title: "Qwen3.5-0.8B",
    architecture: "qwen35",
    layers: 24,
    width: 1024,
    heads: 8,
    kvHeads: 2,
    headWidth: 256,
    rotaryWidth: 64,
    feedForward: 3584,
    context: 262_144,
    normEpsilon: 1e-6,
    ropeBase: 10_000_000,
    tied: true,
    keys: () => deltaNetKeys(16, 16),
    vocabulary: QWEN35_VOCABULARY,
  },
  "gpt-oss-20b": {
    title: "gpt-oss-20b",
    architecture: "gpt-oss",
    layers: 24,
    width: 2880,
    heads: 64,
    kvHeads: 8,
    headWidth: 64,
    feedForward: 2880,
    context: 131_072,
    normEpsilon: 1e-5,
    ropeBase: 150_000,
    tied: false,
    keys: () => [
      ...expertKeys(32, 4, 2880),
      u32("attention.sliding_window", 128),
      str("rope.scaling.type", "yarn"),
      f32("rope.scaling.factor", 32),
      u32("rope.scaling.original_context_length", 4096),
    ],
    layerTensors: () => GPT_OSS_TENSORS,
    vocabulary: GPT_OSS_VOCABULARY,
  },
  "gemma3-12b": {
    title: "Gemma-3-12B",
    architecture: "gemma3",
    layers: 48,
    width: 3840,
    heads: 16,
    kvHeads: 8,
    headWidth: 256,
    feedForward: 15_360,
    context: 131_072,
    normEpsilon: 1e-6,
    ropeBase: 1_000_000,
    tied: true,
    keys: () => [
      u32("attention.sliding_window", 1024),
      f32("rope.freq_base_swa", 10_000),
      str("rope.scaling.type", "linear"),
      f32("rope.scaling.factor", 8),
    ],
    vocabulary: gemmaVocabulary(262_208),
  },
  "gemma4-26b-a4b": {
    title: "Gemma-4-26B-A4B",
    architecture: "gemma4",
    layers: 30,
    width: 2816,
    heads: 16,
    kvHeads: 8,
    headWidth: 512,
    feedForward: 2112,
    context: 262_144,
    normEpsilon: 1e-6,
    ropeBase: 1_000_000,
    tied: true,
    keys: ({ layers }) => {
      const full = Array.from({ length: layers }, (_, layer) => isFull(layer));
      return [
        ...expertKeys(128, 8, 704),
        arr(
          "attention.head_count_kv",
          "uint32",
          full.map((isFullLayer) => (isFullLayer ? 2 : 8)),
        ),
        arr(
          "attention.sliding_window_pattern",
          "bool",
          full.map((isFullLayer) => !isFullLayer),
        ),
        u32("attention.sliding_window", 1024),
        u32("attention.key_length_swa", 256),
        u32("attention.value_length_swa", 256),
        f32("rope.freq_base_swa", 10_000),
        u32("rope.dimension_count_swa", 256),
        u32("attention.shared_kv_layers", 0),
        u32("embedding_length_per_layer_input", 0),
        f32("final_logit_softcapping", 30),
      ];
    },
    tensors: ["rope_freqs.weight"],
    layerTensors: (layer) => [
      ...GEMMA4_SCALES,
      "layer_output_scale.weight",
      ...(isFull(layer) ? [] : ["attn_v.weight"]),
    ],
    vocabulary: gemmaVocabulary(262_144),
  },
  "glm4.7-flash": {
    title: "GLM-4.7-Flash",
    architecture: "deepseek2",
    layers: 47,
    width: 2048,
    heads: 20,
    kvHeads: 1,
    headWidth: 576,
    valueWidth: 512,
    rotaryWidth: 64,
    feedForward: 10_240,
    context: 202_752,
    normEpsilon: 1e-5,
    ropeBase: 1_000_000,
    tied: false,
    keys: () => [
      ...expertKeys(64, 4, 1536),
      u32("expert_shared_count", 1),
      u32("leading_dense_block_count", 1),
      u32("expert_gating_func", 2),
      { key: "expert_weights_norm", type: "bool", value: true },
      f32("expert_weights_scale", 1.8),
      u32("attention.q_lora_rank", 768),
      u32("attention.kv_lora_rank", 512),
      u32("attention.key_length_mla", 256),
      u32("attention.value_length_mla", 256),
    ],
    layerTensors: () => ["attn_k_b.weight", "exp_probs_b.bias"],
    vocabulary: GLM_VOCABULARY,
  },
} as const satisfies Readonly<Record<string, ModelShape>>;
