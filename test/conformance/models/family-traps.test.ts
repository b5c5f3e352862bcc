// Details of files that are easily overlooked: tensors under other names, keys that do nothing, defaults of missing keys, blocks that
// are not computed. Two files that mean the same have to give the same logits, and two that do not, others.

import { afterAll, describe, expect, it } from "vitest";
import type { HyperParameters } from "../../../src/architectures/descriptor.js";
import type { AttentionSpec } from "../../../src/architectures/layer.js";
import { detectArchitecture } from "../../../src/architectures/registry.js";
import { ReferenceBackend } from "../../../src/backends/reference/backend.js";
import { arr, bool, f32, type GgufEntry, str, u32 } from "../../../src/gguf/entry.js";
import { GgufMetadata } from "../../../src/gguf/metadata.js";
import { type GgufPlan, writeGguf } from "../../../src/gguf/writer.js";
import { Model } from "../../../src/model/model.js";
import { encodeTensor } from "../../../src/quant/codec.js";
import { TemporaryFolder } from "../../support/temporary-folder.js";
import { familyFile, familyModel, type FamilyShape } from "./family-model.js";
import type { MadeTensor } from "./random-model.js";

const folder = new TemporaryFolder();
afterAll(() => folder[Symbol.dispose]());

const TOKENS = Int32Array.from({ length: 24 }, (_, index) => (index * 37) % 256);
const SEED = 11;
const EXPERTS = [u32("expert_count", 6), u32("expert_used_count", 2), u32("expert_feed_forward_length", 32)];

async function logitsOf(plan: GgufPlan): Promise<Float32Array> {
  const path = folder.file("model.gguf");
  await writeGguf(path, plan);
  await using model = await Model.open(path, new ReferenceBackend(), { contextTokens: TOKENS.length });
  return await model.logits(TOKENS);
}

/** The file with further keys, whose names lack the prefix. */
/** The attention of the first layer. */
function attentionOf({ layers: [{ mixer }] }: HyperParameters): AttentionSpec {
  if (mixer.kind !== "attention") throw new TypeError(`expected attention, found ${mixer.kind}`);
  return mixer;
}

function withKeys({ metadata, tensors }: GgufPlan, architecture: string, keys: readonly GgufEntry[]): GgufPlan {
  const own = keys.map((entry) => ({ ...entry, key: `${architecture}.${entry.key}` }));
  return { metadata: [...metadata.filter(({ key }) => !own.some((entry) => entry.key === key)), ...own], tensors };
}

const floats = ({ data }: MadeTensor): Float32Array => new Float32Array(Uint8Array.from(data).buffer);
const vector = (name: string, values: readonly number[]): MadeTensor => ({
  name,
  type: "F32",
  shape: [values.length],
  data: encodeTensor("F32", Float32Array.from(values)),
});

describe("tensors", () => {
  it("of single experts, as old converters wrote them, are a stack", async () => {
    const { metadata, tensors } = familyModel(SEED, {
      architecture: "llama",
      feedForward: 32,
      keys: () => [u32("expert_count", 4), u32("expert_used_count", 2)],
    });
    const single = tensors.flatMap((tensor): readonly MadeTensor[] => {
      const match = /^(.*\.ffn_(?:gate|up|down))_exps\.weight$/.exec(tensor.name);
      if (match === null) return [tensor];
      const [inputs, outputs, count] = tensor.shape;
      const bytes = tensor.data.byteLength / count;
      return Array.from({ length: count }, (_, expert) => ({
        ...tensor,
        name: `${match[1]}.${expert}.weight`,
        shape: [inputs, outputs],
        data: tensor.data.subarray(expert * bytes, (expert + 1) * bytes),
      }));
    });
    expect(single.length).toBeGreaterThan(tensors.length);
    expect(await logitsOf({ metadata, tensors: single })).toEqual(await logitsOf({ metadata, tensors }));
  });

  it("of selection biases may lack their suffix", async () => {
    const shape: FamilyShape = {
      architecture: "minimax-m2",
      feedForward: 32,
      keys: () => [...EXPERTS, u32("expert_gating_func", 2)],
      layerTensors: () => ["exp_probs_b.bias"],
    };
    const { metadata, tensors } = familyModel(SEED, shape);
    const renamed = tensors.map((tensor) => ({
      ...tensor,
      name: tensor.name.replace("exp_probs_b.bias", "exp_probs_b"),
    }));
    const without = tensors.filter(({ name }) => !name.includes("exp_probs_b"));
    const expected = await logitsOf({ metadata, tensors });
    expect(await logitsOf({ metadata, tensors: renamed })).toEqual(expected);
    expect(await logitsOf({ metadata, tensors: without })).not.toEqual(expected);
  });

  it("named scale multiply a matmul, and those named input_scale do nothing", async () => {
    const { metadata, tensors } = familyModel(SEED, { architecture: "qwen3moe", keys: () => EXPERTS });
    const halved = tensors.map((tensor) =>
      /attn_output|ffn_down_exps/.test(tensor.name)
        ? {
            ...tensor,
            data: encodeTensor(
              "F32",
              floats(tensor).map((value) => value / 2),
            ),
          }
        : tensor,
    );
    const scales = [0, 1, 2].flatMap((layer) => [
      vector(`blk.${layer}.attn_output.scale`, [2]),
      vector(`blk.${layer}.attn_output.input_scale`, [7]),
      vector(
        `blk.${layer}.ffn_down_exps.scale`,
        Array.from({ length: 6 }, () => 2),
      ),
    ]);
    expect(await logitsOf({ metadata, tensors: [...halved, ...scales] })).toEqual(
      await logitsOf({ metadata, tensors }),
    );
  });

  it("of gate and up may be one, the gate first", async () => {
    const { metadata, tensors } = familyModel(SEED, { architecture: "qwen3moe", keys: () => EXPERTS });
    const joined = tensors.flatMap((gate): readonly MadeTensor[] => {
      if (gate.name.endsWith("ffn_up_exps.weight")) return [];
      if (!gate.name.endsWith("ffn_gate_exps.weight")) return [gate];
      const up = tensors.find(({ name }) => name === gate.name.replace("gate", "up")) as MadeTensor;
      const [inputs, outputs, count] = gate.shape;
      const bytes = gate.data.byteLength / count;
      const data = Array.from({ length: count }, (_, expert) =>
        [gate, up].map((part) => part.data.subarray(expert * bytes, (expert + 1) * bytes)),
      ).flat();
      return [
        {
          ...gate,
          name: gate.name.replace("ffn_gate_exps", "ffn_gate_up_exps"),
          shape: [inputs, 2 * outputs, count],
          data: Uint8Array.from(Buffer.concat(data)),
        },
      ];
    });
    expect(await logitsOf({ metadata, tensors: joined })).toEqual(await logitsOf({ metadata, tensors }));
  });
});

describe("keys that do nothing", () => {
  const shapes: readonly (readonly [what: string, FamilyShape, readonly GgufEntry[]])[] = [
    [
      "the router's of a family that has its own rule",
      { architecture: "qwen3moe", keys: () => EXPERTS },
      [f32("expert_weights_scale", 2.5), bool("expert_weights_norm", false), u32("expert_gating_func", 2)],
    ],
    [
      "the expert width of hunyuan-moe",
      {
        architecture: "hunyuan-moe",
        feedForward: 32,
        keys: () => [...EXPERTS, u32("expert_shared_feed_forward_length", 24)],
      },
      [u32("expert_feed_forward_length", 999)],
    ],
    [
      "the expert width of minimax-m2",
      { architecture: "minimax-m2", feedForward: 32, keys: () => [...EXPERTS, u32("expert_gating_func", 2)] },
      [u32("expert_feed_forward_length", 999)],
    ],
    [
      "feed_forward_length of gpt-oss",
      { architecture: "gpt-oss", keys: () => [...EXPERTS, u32("attention.sliding_window", 7)] },
      [u32("feed_forward_length", 5)],
    ],
    ["windows of exaone4 without 64 layers", { architecture: "exaone4" }, [u32("attention.sliding_window", 3)]],
    ["windows of phi3", { architecture: "phi3" }, [u32("attention.sliding_window", 3)]],
    [
      "lists of window layers of a family with a period",
      { architecture: "gpt-oss", keys: () => [...EXPERTS, u32("attention.sliding_window", 3)] },
      [arr("attention.sliding_window_pattern", "bool", [false, true, true])],
    ],
    [
      "the soft-cap of scores of gemma3",
      { architecture: "gemma3", tied: true, keys: () => [u32("attention.sliding_window", 5)] },
      [f32("attn_logit_softcapping", 2)],
    ],
    [
      "numbers of YaRN of a family that uses the usual ones",
      {
        architecture: "qwen3",
        keys: () => [
          str("rope.scaling.type", "yarn"),
          f32("rope.scaling.factor", 4),
          u32("rope.scaling.original_context_length", 16),
        ],
      },
      [
        f32("rope.scaling.yarn_beta_fast", 20),
        f32("rope.scaling.yarn_beta_slow", 3),
        f32("rope.scaling.yarn_attn_factor", 2),
        f32("rope.scaling.yarn_ext_factor", 0.5),
        f32("rope.scaling.yarn_log_multiplier", 0.7),
      ],
    ],
  ];

  it.each(shapes)("%s", async (_, shape, keys) => {
    const model = familyModel(SEED, shape);
    expect(await logitsOf(withKeys(model, shape.architecture, keys))).toEqual(await logitsOf(model));
  });
});

describe("keys that do something", () => {
  const YARN = [
    str("rope.scaling.type", "yarn"),
    f32("rope.scaling.factor", 4),
    u32("rope.scaling.original_context_length", 1000),
  ];
  it.each<[what: string, FamilyShape, readonly GgufEntry[]]>([
    ["rope.scaling.attn_factor without a type", { architecture: "olmo2" }, [f32("rope.scaling.attn_factor", 1.5)]],
    [
      "YaRN's borders of mistral3",
      { architecture: "mistral3", keys: () => YARN },
      [f32("rope.scaling.yarn_beta_fast", 3)],
    ],
    ["finetuned of granite", { architecture: "granite" }, [bool("rope.scaling.finetuned", false)]],
    [
      "expert groups",
      { architecture: "qwen3moe", keys: () => EXPERTS },
      [u32("expert_group_count", 3), u32("expert_group_used_count", 1)],
    ],
    [
      "a period of windows",
      { architecture: "gpt-oss", keys: () => [...EXPERTS, u32("attention.sliding_window", 3)] },
      [u32("attention.sliding_window_pattern", 3)],
    ],
  ])("%s", async (_, shape, keys) => {
    const model = familyModel(SEED, shape);
    expect(await logitsOf(withKeys(model, shape.architecture, keys))).not.toEqual(await logitsOf(model));
  });
});

describe("defaults", () => {
  const parametersOf = (drawn: FamilyShape) => {
    const { shape, metadata } = familyFile(drawn);
    const tensors = new Map<string, { readonly shape: readonly number[] }>([
      ["token_embd.weight", { shape: [shape.width, shape.vocabulary.size] }],
      ...Array.from(
        { length: shape.layers + 1 },
        (_, layer) => [`blk.${layer}.attn_norm.weight`, { shape: [1] }] as const,
      ),
    ]);
    const { descriptor, source } = detectArchitecture(new GgufMetadata(metadata), tensors);
    return descriptor.readHyperParameters(source);
  };
  const latent: FamilyShape = {
    architecture: "deepseek2",
    kvHeads: 1,
    headWidth: 48,
    valueWidth: 40,
    rotaryWidth: 8,
    keys: () => [...EXPERTS, u32("attention.kv_lora_rank", 40)],
  };

  it.each([
    [300, "softmax"],
    [154_880, "sigmoid"],
  ])("of deepseek2's router with %d tokens: %s", (vocabularySize, gating) => {
    const [{ feedForward }] = parametersOf({ ...latent, vocabularySize }).layers;
    expect(feedForward).toMatchObject({ kind: "experts", gating });
  });

  it("of a query rank: none", () => {
    const [{ mixer }] = parametersOf(latent).layers;
    expect(mixer).not.toHaveProperty("queryLatentWidth");
  });

  it("of gemma4's final soft-cap: 30", () => {
    const gemma = { architecture: "gemma4", tied: true, keys: () => [u32("attention.sliding_window", 5)] } as const;
    expect(parametersOf(gemma).logitSoftCap).toBe(30);
  });

  it("of the rope base of window layers: 10,000 for gemma3, the others' for gpt-oss", () => {
    const keys = (): readonly GgufEntry[] => [...EXPERTS, u32("attention.sliding_window", 5)];
    const baseOf = (architecture: string): number | undefined =>
      attentionOf(parametersOf({ architecture, ropeBase: 77_000, keys })).rope?.base;
    expect([baseOf("gemma3"), baseOf("gpt-oss")]).toEqual([10_000, 77_000]);
  });

  it.each([
    ["gemma2", 46],
    ["gemma3", 62],
  ])("of the scale of %s with %d layers: by the width of the embedding", (architecture, layers) => {
    const scaleOf = (count: number): number =>
      attentionOf(parametersOf({ architecture, layers: count, width: 64, heads: 4, headWidth: 32, tied: true })).scale;
    expect([scaleOf(layers), scaleOf(layers - 1)]).toEqual([1 / Math.sqrt(16), 1 / Math.sqrt(32)]);
  });
});

describe("blocks that predict further tokens", () => {
  it.each([
    ["glm4moe", { layerTensors: () => ["attn_q.bias", "attn_k.bias", "attn_v.bias"], keys: () => EXPERTS }],
    ["qwen3", {}],
    ["qwen3moe", { keys: () => EXPERTS }],
  ] as const)("of %s are not computed", async (architecture, changes) => {
    const shape = { architecture, ...changes };
    expect(await logitsOf(familyModel(SEED, { ...shape, predictingLayers: 2 }))).toEqual(
      await logitsOf(familyModel(SEED, shape)),
    );
  });
});
