// Families with numbers that cannot be: experts, groups, windows, latent widths, shared keys and values, multipliers. Each is
// refused when the file is opened, with a typed error that names the key or all tensors that do not fit.

import { afterAll, describe, expect, it } from "vitest";
import { GgufError, ModelError } from "../../../src/errors.js";
import { arr, bool, f32, f64, type GgufEntry, i32, str, u32, u64 } from "../../../src/gguf/entry.js";
import { type GgufPlan, writeGguf } from "../../../src/gguf/writer.js";
import { loadModel } from "../../../src/index.js";
import type { LayerProblem } from "../../../src/plan/layer-plan.js";
import { TemporaryFolder } from "../../support/temporary-folder.js";
import { familyModel, type FamilyShape } from "./family-model.js";
import type { RandomModel } from "./random-model.js";

const folder = new TemporaryFolder();
afterAll(() => folder[Symbol.dispose]());

const EXPERTS = [u32("expert_count", 6), u32("expert_used_count", 2), u32("expert_feed_forward_length", 32)];

const RECURRENT = [
  u32("ssm.conv_kernel", 4),
  u32("ssm.state_size", 16),
  u32("ssm.group_count", 2),
  u32("ssm.time_step_rank", 4),
  u32("ssm.inner_size", 64),
];

const SHAPES = {
  qwen3moe: { architecture: "qwen3moe", keys: () => EXPERTS },
  deepseek2: {
    architecture: "deepseek2",
    kvHeads: 1,
    headWidth: 48,
    valueWidth: 40,
    rotaryWidth: 8,
    keys: () => [
      ...EXPERTS,
      u32("attention.kv_lora_rank", 40),
      u32("attention.q_lora_rank", 24),
      u32("attention.key_length_mla", 24),
      u32("attention.value_length_mla", 16),
      u32("leading_dense_block_count", 1),
      u32("expert_shared_count", 1),
    ],
    layerTensors: () => ["attn_k_b.weight"],
  },
  gemma4: {
    architecture: "gemma4",
    layers: 4,
    headWidth: 16,
    tied: true,
    keys: () => [
      u32("attention.sliding_window", 8),
      arr("attention.sliding_window_pattern", "bool", [true, false, true, false]),
      u32("attention.key_length_swa", 8),
      u32("attention.value_length_swa", 8),
      u32("rope.dimension_count_swa", 8),
      u32("attention.shared_kv_layers", 2),
      u32("embedding_length_per_layer_input", 8),
    ],
  },
  "gpt-oss": { architecture: "gpt-oss", keys: () => [...EXPERTS, u32("attention.sliding_window", 8)] },
  granite: { architecture: "granite", keys: () => [f32("attention.scale", 0.2), f32("logit_scale", 2)] },
  mistral3: { architecture: "mistral3", keys: () => [f32("attention.temperature_scale", 0.2)] },
  llama4: { architecture: "llama4", layers: 4, keys: () => [...EXPERTS, u32("interleave_moe_layer_step", 2)] },
  cohere2: {
    architecture: "cohere2",
    tied: true,
    keys: () => [
      u32("attention.sliding_window", 8),
      f32("logit_scale", 0.3),
      f32("attention.layer_norm_epsilon", 1e-5),
    ],
  },
  qwen35: {
    architecture: "qwen35",
    layers: 4,
    headWidth: 16,
    keys: () => [
      u32("full_attention_interval", 2),
      ...RECURRENT,
      arr("rope.dimension_sections", "int32", [3, 3, 2, 0]),
    ],
  },
  nemotron_h: {
    architecture: "nemotron_h",
    layers: 3,
    headWidth: 16,
    keys: () => [
      ...RECURRENT,
      f32("attention.layer_norm_epsilon", 1e-5),
      arr("attention.head_count_kv", "uint32", [0, 2, 0]),
      arr("feed_forward_length", "uint32", [0, 0, 96]),
    ],
    layerTensors: () => ["ssm_conv1d.bias", "ssm_norm.weight"],
  },
  lfm2: {
    architecture: "lfm2",
    tied: true,
    keys: () => [u32("shortconv.l_cache", 3), arr("attention.head_count_kv", "uint32", [0, 2, 0])],
  },
} as const satisfies Readonly<Record<string, FamilyShape>>;
type Family = keyof typeof SHAPES;
const FAMILIES = Object.keys(SHAPES) as readonly Family[];

const made = new Map<Family, RandomModel>();

function sound(family: Family): RandomModel {
  const model = made.get(family) ?? familyModel(5, SHAPES[family]);
  made.set(family, model);
  return model;
}

async function open(plan: GgufPlan): Promise<void> {
  const path = folder.file("model.gguf");
  await writeGguf(path, plan);
  await using model = await loadModel(path, { backend: "reference" });
  await model.logits([1, 2, 3]);
}

async function refusal(plan: GgufPlan): Promise<unknown> {
  try {
    await open(plan);
  } catch (error) {
    return error;
  }
  throw new Error("the model was expected to be refused, and ran");
}

/** The sound file with these entries, whose keys lack the prefix, in place of those of the same keys. */
function edited(family: Family, ...entries: readonly GgufEntry[]): GgufPlan {
  const { metadata, tensors } = sound(family);
  const own = entries.map((entry) => ({ ...entry, key: `${family}.${entry.key}` }));
  return { metadata: [...metadata.filter(({ key }) => !own.some((entry) => entry.key === key)), ...own], tensors };
}

describe("the sound models", () => {
  it.each(FAMILIES)("%s runs", async (family) => {
    await open(sound(family));
  });
});

describe("hyper-parameters of families", () => {
  const flags = (count: number): GgufEntry =>
    arr(
      "attention.sliding_window_pattern",
      "bool",
      Array.from({ length: count }, (_, layer) => layer % 2 === 0),
    );
  const refused: readonly (readonly [Family, field: string, what: string, ...entries: GgufEntry[]])[] = [
    ["qwen3moe", "expert_used_count", "over expert_count", u32("expert_used_count", 7)],
    ["qwen3moe", "expert_used_count", "zero", u32("expert_used_count", 0)],
    ["qwen3moe", "expert_count", "a fraction", f32("expert_count", 6.5)],
    ["qwen3moe", "expert_count", "as large as can be", u32("expert_count", 0xffff_ffff)],
    ["qwen3moe", "expert_count", "negative", i32("expert_count", -6)],
    ["qwen3moe", "expert_feed_forward_length", "zero", u32("expert_feed_forward_length", 0)],
    ["qwen3moe", "expert_feed_forward_length", "huge", u64("expert_feed_forward_length", 2 ** 40)],
    ["qwen3moe", "expert_group_count", "no divisor of the experts", u32("expert_group_count", 4)],
    ["qwen3moe", "expert_group_count", "over the experts", u32("expert_group_count", 12)],
    [
      "qwen3moe",
      "expert_group_used_count",
      "over the groups",
      u32("expert_group_count", 3),
      u32("expert_group_used_count", 4),
    ],
    ["qwen3moe", "expert_group_used_count", "missing", u32("expert_group_count", 3)],
    [
      "qwen3moe",
      "expert_used_count",
      "more than the groups in use have",
      u32("expert_group_count", 6),
      u32("expert_group_used_count", 1),
    ],
    ["qwen3moe", "attention.head_count", "zero in a list", arr("attention.head_count", "uint32", [4, 0, 4])],
    ["qwen3moe", "attention.head_count_kv", "zero in a list", arr("attention.head_count_kv", "uint32", [2, 0, 2])],
    ["qwen3moe", "attention.head_count", "a list of the wrong length", arr("attention.head_count", "uint32", [4, 4])],
    ["deepseek2", "expert_gating_func", "not known", u32("expert_gating_func", 5)],
    ["deepseek2", "expert_weights_scale", "negative", f32("expert_weights_scale", -1)],
    ["deepseek2", "attention.kv_lora_rank", "zero", u32("attention.kv_lora_rank", 0)],
    ["deepseek2", "attention.kv_lora_rank", "huge", u32("attention.kv_lora_rank", 1 << 19)],
    ["deepseek2", "attention.q_lora_rank", "huge", u32("attention.q_lora_rank", 0xffff_ffff)],
    ["deepseek2", "attention.q_lora_rank", "negative", i32("attention.q_lora_rank", -1)],
    ["deepseek2", "rope.dimension_count", "the whole key", u32("attention.key_length_mla", 8)],
    ["deepseek2", "attention.value_length_mla", "zero", u32("attention.value_length_mla", 0)],
    ["deepseek2", "expert_shared_count", "huge", u32("expert_shared_count", 1 << 20)],
    ["deepseek2", "attention.temperature_length", "missing", f32("attention.temperature_scale", 0.1)],
    ["deepseek2", "rope.scaling.yarn_log_multiplier", "negative", f32("rope.scaling.yarn_log_multiplier", -1)],
    ["gemma4", "attention.shared_kv_layers", "all layers", u32("attention.shared_kv_layers", 4)],
    ["gemma4", "attention.shared_kv_layers", "over the layers", u32("attention.shared_kv_layers", 9)],
    ["gemma4", "attention.shared_kv_layers", "without a layer of the kind", u32("attention.shared_kv_layers", 3)],
    ["gemma4", "attention.shared_kv_layers", "a fraction", f32("attention.shared_kv_layers", 1.5)],
    ["gemma4", "attention.sliding_window", "zero", u32("attention.sliding_window", 0)],
    ["gemma4", "attention.sliding_window_pattern", "too short", flags(3)],
    ["gemma4", "attention.sliding_window_pattern", "too long", flags(5)],
    ["gemma4", "rope.dimension_count_swa", "over the head", u32("rope.dimension_count_swa", 12)],
    ["gemma4", "rope.dimension_count_swa", "odd", u32("rope.dimension_count_swa", 3)],
    ["gemma4", "attention.key_length_swa", "huge", u32("attention.key_length_swa", 1 << 20)],
    ["gemma4", "embedding_length_per_layer_input", "huge", u32("embedding_length_per_layer_input", 1 << 20)],
    ["gemma4", "final_logit_softcapping", "negative", f32("final_logit_softcapping", -30)],
    ["gemma4", "feed_forward_length", "a list of the wrong length", arr("feed_forward_length", "uint32", [96, 96])],
    ["gemma4", "feed_forward_length", "zero in a list", arr("feed_forward_length", "uint32", [96, 0, 96, 96])],
    [
      "gemma4",
      "attention.head_count_kv",
      "another in a shared layer",
      arr("attention.head_count_kv", "uint32", [2, 2, 4, 2]),
    ],
    ["gpt-oss", "attention.sliding_window", "zero", u32("attention.sliding_window", 0)],
    ["gpt-oss", "attention.sliding_window_pattern", "negative", i32("attention.sliding_window_pattern", -2)],
    ["gpt-oss", "rope.freq_base_swa", "negative", f32("rope.freq_base_swa", -1)],
    ["granite", "attention.scale", "negative", f32("attention.scale", -1)],
    ["granite", "logit_scale", "negative", f32("logit_scale", -1)],
    ["granite", "residual_scale", "negative", f32("residual_scale", -1)],
    ["granite", "embedding_scale", "negative", f32("embedding_scale", -1)],
    ["mistral3", "attention.temperature_scale", "negative", f32("attention.temperature_scale", -0.1)],
    [
      "mistral3",
      "rope.scaling.yarn_beta_fast",
      "zero",
      str("rope.scaling.type", "yarn"),
      f32("rope.scaling.yarn_beta_fast", 0),
    ],
    ["llama4", "interleave_moe_layer_step", "zero", u32("interleave_moe_layer_step", 0)],
    ["cohere2", "logit_scale", "zero", f32("logit_scale", 0)],
    ["cohere2", "attention.sliding_window", "zero", u32("attention.sliding_window", 0)],
    ["qwen35", "ssm.inner_size", "not the heads' width", u32("ssm.inner_size", 63)],
    ["qwen35", "ssm.group_count", "no divisor of the value heads", u32("ssm.group_count", 3)],
    ["qwen35", "ssm.conv_kernel", "one tap", u32("ssm.conv_kernel", 1)],
    ["qwen35", "ssm.conv_kernel", "huge", u32("ssm.conv_kernel", 1 << 20)],
    ["qwen35", "ssm.state_size", "zero", u32("ssm.state_size", 0)],
    [
      "qwen35",
      "ssm.inner_size",
      "a state of gigabytes",
      u32("ssm.state_size", 1 << 15),
      u32("ssm.time_step_rank", 4),
      u32("ssm.inner_size", 1 << 17),
    ],
    ["qwen35", "full_attention_interval", "zero", u32("full_attention_interval", 0)],
    ["qwen35", "attention.value_length", "another than the gate's", u32("attention.value_length", 8)],
    [
      "qwen35",
      "attention.recurrent_layers",
      "a list of the wrong length",
      arr("attention.recurrent_layers", "bool", [true, false]),
    ],
    ["nemotron_h", "ssm.time_step_rank", "no divisor of the inner size", u32("ssm.time_step_rank", 5)],
    ["nemotron_h", "ssm.group_count", "no divisor of the heads", u32("ssm.group_count", 3)],
    ["nemotron_h", "ssm.state_size", "huge", u32("ssm.state_size", 1 << 20)],
    ["nemotron_h", "attention.head_count_kv", "no divisor", arr("attention.head_count_kv", "uint32", [0, 3, 0])],
    ["nemotron_h", "feed_forward_length", "in every layer", arr("feed_forward_length", "uint32", [96, 96, 96])],
    ["nemotron_h", "feed_forward_length", "a list of the wrong length", arr("feed_forward_length", "uint32", [0, 96])],
    ["lfm2", "shortconv.l_cache", "missing taps", u32("shortconv.l_cache", 1)],
    ["lfm2", "attention.head_count_kv", "a fraction", arr("attention.head_count_kv", "float32", [0, 1.5, 0])],
  ];

  it.for(refused)("rejects %s.%s: %s", async ([family, field, _what, ...entries]) => {
    const error = await refusal(edited(family, ...entries));
    expect(error).toBeInstanceOf(GgufError);
    expect(error).toMatchObject({ code: "GGUF_HYPERPARAMETER", field: `${family}.${field}` });
  });

  it.each<[Family, GgufEntry]>([
    ["qwen3moe", f32("expert_count", Number.NaN)],
    ["qwen3moe", str("expert_used_count", "2")],
    ["deepseek2", bool("attention.kv_lora_rank", true)],
    ["deepseek2", u32("expert_weights_norm", 1)],
    ["gemma4", arr("attention.head_count_kv", "string", ["2", "2", "2", "2"])],
    ["gemma4", arr("attention.sliding_window_pattern", "string", ["a", "b", "c", "d"])],
    ["gemma4", str("attention.shared_kv_layers", "2")],
    ["granite", f32("attention.scale", Number.NaN)],
    ["granite", f64("logit_scale", Number.POSITIVE_INFINITY)],
    ["granite", u32("rope.scaling.finetuned", 1)],
    ["mistral3", f32("attention.temperature_scale", Number.NaN)],
  ])("rejects values of the wrong type: %s %j", async (family, entry) => {
    expect(await refusal(edited(family, entry))).toMatchObject({
      code: "GGUF_VALUE",
      field: `${family}.${entry.key}`,
    });
  });

  it.each<[Family, GgufEntry]>([
    ["granite", f64("attention.scale", 1e300)],
    ["granite", f64("embedding_scale", 1e300)],
    ["granite", f64("residual_scale", 1e300)],
    ["granite", f64("logit_scale", 1e-300)],
    ["deepseek2", f64("expert_weights_scale", 1e300)],
    ["mistral3", f64("rope.freq_base", 1e300)],
  ])("rejects numbers whose results are not finite, or computes finite ones: %s %j", async (family, entry) => {
    try {
      await open(edited(family, entry));
    } catch (error) {
      expect(error).toMatchObject({ code: expect.stringMatching(/BACKEND_NOT_FINITE|GGUF_HYPERPARAMETER/) as string });
    }
  });
});

describe("tensors of families", () => {
  const problems = async (plan: GgufPlan): Promise<readonly string[]> => {
    const error = await refusal(plan);
    expect(error).toBeInstanceOf(ModelError);
    expect(error).toMatchObject({ code: "MODEL_INVALID" });
    return ((error as ModelError).details["problems"] as readonly LayerProblem[]).map(({ subject }) => subject);
  };

  it("rejects experts whose number is not expert_count, and lists every tensor", async () => {
    const found = await problems(edited("qwen3moe", u32("expert_count", 4)));
    const parts = ["ffn_gate_inp", "ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"];
    const expected = [0, 1, 2].flatMap((layer) => parts.map((part) => `blk.${layer}.${part}.weight`));
    expect(found.toSorted()).toEqual(expected.toSorted());
  });

  it("rejects experts of another width", async () => {
    expect(await problems(edited("qwen3moe", u32("expert_feed_forward_length", 16)))).toHaveLength(9);
  });

  it("rejects latent widths that do not fit, and lists every tensor", async () => {
    const found = await problems(edited("deepseek2", u32("attention.kv_lora_rank", 32)));
    expect(found).toEqual(
      expect.arrayContaining(
        ["attn_kv_a_mqa", "attn_kv_a_norm", "attn_k_b", "attn_v_b"].map((part) => `blk.2.${part}.weight`),
      ),
    );
  });

  it("rejects a query rank that does not fit", async () => {
    const found = await problems(edited("deepseek2", u32("attention.q_lora_rank", 32)));
    expect(found).toContain("blk.0.attn_q_b.weight");
  });

  it("rejects per-layer embeddings that do not fit", async () => {
    const found = await problems(edited("gemma4", u32("embedding_length_per_layer_input", 16)));
    expect(found).toEqual(expect.arrayContaining(["per_layer_token_embd.weight", "blk.0.inp_gate.weight"]));
  });

  it("rejects head counts by layer that do not fit the tensors", async () => {
    const found = await problems(edited("qwen3moe", arr("attention.head_count_kv", "uint32", [2, 4, 2])));
    expect(found).toEqual(["blk.1.attn_k.weight", "blk.1.attn_v.weight"]);
  });

  it("rejects a selection bias of another length", async () => {
    const { metadata, tensors } = sound("qwen3moe");
    const bias = { name: "blk.0.exp_probs_b.bias", type: "F32", shape: [5], data: new Uint8Array(20) } as const;
    expect(await problems({ metadata, tensors: [...tensors, bias] })).toEqual(["blk.0.exp_probs_b.bias"]);
  });

  it("rejects sinks of another length", async () => {
    const { metadata, tensors } = sound("gpt-oss");
    const changed = tensors.map((tensor) =>
      tensor.name === "blk.1.attn_sinks.weight" ? { ...tensor, shape: [3], data: tensor.data.subarray(0, 12) } : tensor,
    );
    expect(await problems({ metadata, tensors: changed })).toEqual(["blk.1.attn_sinks.weight"]);
  });

  it("rejects a file that has only blocks which predict further tokens", async () => {
    const { metadata, tensors } = familyModel(5, { ...SHAPES.deepseek2, predictingLayers: 1 });
    const draft = tensors.filter(({ name }) => !/^blk\.[012]\./.test(name));
    expect(await refusal({ metadata, tensors: draft })).toMatchObject({
      code: "MODEL_KIND",
      message: expect.stringContaining("draft head") as string,
    });
  });
});
