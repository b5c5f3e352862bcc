// Hyper-parameters, tokenizer arrays and weights that cannot be: each is refused by name, before anything is computed or
// sized by it. One sound model, broken in one place at a time.

import { afterAll, describe, expect, it } from "vitest";
import { GgufError, ModelError } from "../../../src/errors.js";
import { arr, bool, f32, f64, i32, str, u32, u64, type GgufEntry } from "../../../src/gguf/entry.js";
import { type GgufPlan, writeGguf } from "../../../src/gguf/writer.js";
import { loadModel } from "../../../src/index.js";
import type { LayerProblem } from "../../../src/plan/layer-plan.js";
import { encodeTensor } from "../../../src/quant/codec.js";
import { floatToHalf } from "../../../src/quant/half.js";
import { SUPPORTED } from "../../../src/quant/layout.js";
import { TemporaryFolder } from "../../support/temporary-folder.js";
import { Dice } from "../../support/dice.js";
import { randomTensor } from "./random-blocks.js";
import { type MadeTensor, randomModel, type RandomModelSpec } from "./random-model.js";

const SPEC: RandomModelSpec = {
  seed: 3,
  architecture: "llama",
  types: ["F32"],
  width: 32,
  heads: 4,
  kvHeads: 2,
  feedForward: 48,
  layers: 2,
  vocabulary: 300,
  context: 64,
  epsilon: 1e-5,
};
const sound = randomModel(SPEC);

const folder = new TemporaryFolder();
afterAll(() => folder[Symbol.dispose]());

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

/** The sound metadata with these entries in place of those of the same keys, and without `dropped`. */
function edited(entries: readonly GgufEntry[], dropped: readonly string[] = []): GgufPlan {
  const gone = new Set([...dropped, ...entries.map(({ key }) => key)]);
  return { ...sound, metadata: [...sound.metadata.filter(({ key }) => !gone.has(key)), ...entries] };
}

const key = (name: string): string => `llama.${name}`;
const COUNTS = ["block_count", "context_length", "embedding_length", "feed_forward_length", "attention.head_count"].map(
  key,
);
const OPTIONAL_COUNTS = [
  "attention.head_count_kv",
  "attention.key_length",
  "attention.value_length",
  "rope.dimension_count",
  "rope.scaling.original_context_length",
].map(key);
/** Keys that may be lists with a number for each layer. */
const COUNTS_BY_LAYER = ["feed_forward_length", "attention.head_count", "attention.head_count_kv"].map(key);
const EPSILON = key("attention.layer_norm_rms_epsilon");

describe("the sound model", () => {
  it("runs", async () => {
    await open(sound);
  });

  it("runs with every optional number said", async () => {
    await open(
      edited([
        u64(key("block_count"), 2),
        i32(key("attention.head_count_kv"), 2),
        u32(key("attention.key_length"), 8),
        u32(key("attention.value_length"), 8),
        u32(key("rope.dimension_count"), 8),
        f64(key("rope.freq_base"), 5000),
        u32(key("expert_count"), 0),
        bool(key("attention.causal"), true),
      ]),
    );
  });
});

describe("hyper-parameters", () => {
  const refused: readonly (readonly [field: string, what: string, GgufPlan])[] = [
    ...[...COUNTS, EPSILON].map((field) => [field, "missing", edited([], [field])] as const),
    ...[...COUNTS, ...OPTIONAL_COUNTS].flatMap((field) => [
      [field, "zero", edited([u32(field, 0)])] as const,
      [field, "negative", edited([i32(field, -1)])] as const,
      [field, "as large as can be", edited([u32(field, 0xffff_ffff)])] as const,
      [field, "2^52", edited([u64(field, 2 ** 52)])] as const,
      [field, "a fraction", edited([f32(field, 2.5)])] as const,
      [field, "an empty array", edited([arr(field, "int32", [])])] as const,
      [field, "of other numbers than there are layers", edited([arr(field, "int32", [2, 4, 2])])] as const,
    ]),
    ...[...COUNTS, ...OPTIONAL_COUNTS]
      .filter((field) => !COUNTS_BY_LAYER.includes(field))
      .map((field) => [field, "different from layer to layer", edited([arr(field, "int32", [2, 4])])] as const),
    ...[EPSILON, key("rope.freq_base"), key("rope.scaling.attn_factor")].flatMap((field) => [
      [field, "zero", edited([f32(field, 0)])] as const,
      [field, "negative", edited([f32(field, -1)])] as const,
      [field, "NaN in an array", edited([arr(field, "float32", [Number.NaN, Number.NaN])])] as const,
      [field, "infinite in an array", edited([arr(field, "float32", [Number.POSITIVE_INFINITY])])] as const,
    ]),
    [key("rope.scaling.factor"), "negative", edited([f32(key("rope.scaling.factor"), -4)])],
    [key("rope.scale_linear"), "negative", edited([f32(key("rope.scale_linear"), -4)])],
    [key("attention.head_count"), "no divisor of the width", edited([u32(key("attention.head_count"), 5)])],
    [
      key("attention.head_count"),
      "no divisor of the width",
      edited([u32(key("attention.head_count"), 3)], [key("attention.head_count_kv")]),
    ],
    [key("attention.head_count_kv"), "more than heads", edited([u32(key("attention.head_count_kv"), 8)])],
    [key("attention.head_count_kv"), "no divisor of the heads", edited([u32(key("attention.head_count_kv"), 3)])],
    [
      key("attention.key_length"),
      "an odd number, which cannot be rotated",
      edited([u32(key("attention.key_length"), 7)]),
    ],
    [key("rope.dimension_count"), "larger than a head", edited([u32(key("rope.dimension_count"), 16)])],
    [key("rope.dimension_count"), "odd", edited([u32(key("rope.dimension_count"), 5)])],
    [
      key("rope.dimension_count"),
      "a part of a head, in a family that rotates whole ones",
      edited([u32(key("rope.dimension_count"), 4)]),
    ],
    [key("block_count"), "more than there are tensors", edited([u32(key("block_count"), 4000)])],
    [key("nextn_predict_layers"), "all layers", edited([u32(key("nextn_predict_layers"), 2)])],
    [key("nextn_predict_layers"), "negative", edited([i32(key("nextn_predict_layers"), -1)])],
    [
      key("rope.dimension_sections"),
      "a fourth section",
      edited([arr(key("rope.dimension_sections"), "int32", [1, 1, 1, 1])]),
    ],
  ];

  it.each(refused)("rejects %s: %s", async (field, what, plan) => {
    const error = await refusal(plan);
    // An odd head is told as the rotation that it makes impossible; a hopeless head count as the kv heads it has.
    const related = what.startsWith("an odd") ? [key("rope.dimension_count")] : [key("attention.head_count_kv")];
    expect(error).toBeInstanceOf(GgufError);
    expect(error).toMatchObject({ code: "GGUF_HYPERPARAMETER" });
    expect([field, ...related]).toContain((error as GgufError).field);
    expect((error as GgufError).expected).not.toBe("");
    expect((error as GgufError).found).not.toBe("");
  });

  const ofTheWrongType: readonly (readonly [string, string, GgufEntry])[] = [
    ...[...COUNTS, ...OPTIONAL_COUNTS, EPSILON].flatMap((field) => [
      [field, "a string", str(field, "many")] as const,
      [field, "a bool", bool(field, true)] as const,
      [field, "an array of strings", arr(field, "string", ["1", "1"])] as const,
      [field, "NaN", f32(field, Number.NaN)] as const,
      [field, "infinite", f64(field, Number.POSITIVE_INFINITY)] as const,
      [field, "2^64 - 1", u64(field, 2n ** 64n - 1n)] as const,
    ]),
    [key("rope.scaling.type"), "a number", u32(key("rope.scaling.type"), 1)],
    ["general.architecture", "a number", u32("general.architecture", 1)],
  ];

  it.each(ofTheWrongType)("rejects %s: %s", async (field, _, entry) => {
    expect(await refusal(edited([entry]))).toMatchObject({ code: "GGUF_VALUE", field });
  });

  it.each([
    ["attention to later tokens", bool(key("attention.causal"), false)],
    ["an unknown rope scaling", str(key("rope.scaling.type"), "dynamic")],
  ])("rejects %s", async (_, entry) => {
    const error = await refusal(edited([entry]));
    expect(error).toBeInstanceOf(ModelError);
    expect(error).toMatchObject({ code: "MODEL_UNSUPPORTED" });
  });

  it("rejects an attention factor so large that logits overflow", async () => {
    expect(await refusal(edited([f64(key("rope.scaling.attn_factor"), 1e300)]))).toMatchObject({
      code: "BACKEND_NOT_FINITE",
    });
  });

  it("rejects a rope factor so small that angles overflow", async () => {
    expect(await refusal(edited([f64(key("rope.scaling.factor"), 5e-324)]))).toMatchObject({
      code: "BACKEND_NOT_FINITE",
    });
  });
});

describe("tokenizer arrays", () => {
  const tokens = (count: number): string[] => Array.from({ length: count }, (_, id) => `<${id}>`);
  const refused: readonly (readonly [field: string, what: string, GgufEntry])[] = [
    ["tokenizer.ggml.tokens", "of numbers", arr("tokenizer.ggml.tokens", "int32", [1, 2, 3])],
    ["tokenizer.ggml.tokens", "not an array", str("tokenizer.ggml.tokens", "a b c")],
    ["tokenizer.ggml.token_type", "of strings", arr("tokenizer.ggml.token_type", "string", tokens(300))],
    ["tokenizer.ggml.token_type", "shorter than the tokens", arr("tokenizer.ggml.token_type", "int32", [1, 1])],
    [
      "tokenizer.ggml.scores",
      "longer than the tokens",
      arr(
        "tokenizer.ggml.scores",
        "float32",
        Array.from({ length: 301 }, () => 0),
      ),
    ],
    ["tokenizer.ggml.scores", "of strings", arr("tokenizer.ggml.scores", "string", tokens(300))],
    ["tokenizer.ggml.merges", "of numbers", arr("tokenizer.ggml.merges", "int32", [1])],
    ["tokenizer.ggml.model", "a number", u32("tokenizer.ggml.model", 1)],
    ["tokenizer.ggml.pre", "a number", u32("tokenizer.ggml.pre", 1)],
    ["tokenizer.ggml.add_bos_token", "a number", u32("tokenizer.ggml.add_bos_token", 1)],
    ["tokenizer.ggml.bos_token_id", "past the vocabulary", u32("tokenizer.ggml.bos_token_id", 300)],
    ["tokenizer.ggml.eos_token_id", "negative", i32("tokenizer.ggml.eos_token_id", -2)],
    ["tokenizer.ggml.eot_token_id", "a string", str("tokenizer.ggml.eot_token_id", "</s>")],
  ];

  it.each(refused)("rejects %s: %s", async (field, _, entry) => {
    const error = await refusal(edited([entry]));
    expect(error).toBeInstanceOf(GgufError);
    expect(error).toMatchObject({ code: "GGUF_TOKENIZER", field });
  });

  it("rejects token_type without tokens", async () => {
    expect(await refusal(edited([], ["tokenizer.ggml.tokens"]))).toMatchObject({
      code: "GGUF_TOKENIZER",
      field: "tokenizer.ggml.tokens",
    });
  });
});

describe("weights", () => {
  const replaced = (name: string, change: (tensor: MadeTensor) => MadeTensor): GgufPlan => ({
    ...sound,
    tensors: sound.tensors.map((tensor) => (tensor.name === name ? change(tensor) : tensor)),
  });

  it.each([
    ["NaN", Number.NaN],
    ["infinity", Number.POSITIVE_INFINITY],
    ["minus infinity", Number.NEGATIVE_INFINITY],
  ])("rejects %s in an F32 tensor by name and element", async (_, bad) => {
    const values = Float32Array.from({ length: 32 }, (__, index) => (index === 17 ? bad : 1));
    const plan = replaced("blk.1.ffn_norm.weight", (tensor) => ({ ...tensor, data: encodeTensor("F32", values) }));
    const error = await refusal(plan);
    expect(error).toMatchObject({ code: "GGUF_TENSOR_NOT_FINITE", field: "blk.1.ffn_norm.weight" });
    expect((error as GgufError).found).toContain("17");
  });

  /** Where a block keeps a half that scales it. */
  const HALF_SCALES: Readonly<Record<string, number>> = {
    F16: 0,
    Q4_0: 0,
    Q4_1: 2,
    Q5_0: 0,
    Q5_1: 0,
    Q8_0: 0,
    Q2_K: 82,
    Q3_K: 108,
    Q4_K: 2,
    Q5_K: 0,
    Q6_K: 208,
    IQ4_NL: 0,
    IQ4_XS: 0,
    TQ1_0: 52,
    TQ2_0: 64,
  };
  const wide = randomModel({ ...SPEC, width: 256, feedForward: 256 });

  it.each(SUPPORTED.filter(({ name }) => name in HALF_SCALES))(
    "rejects NaN and infinity in the scale of a $name block",
    async ({ name: type, blockBytes }) => {
      for (const bad of [Number.NaN, Number.POSITIVE_INFINITY]) {
        const data = randomTensor(new Dice(1), type, 256 * 256, 0.1);
        const at = 3 * blockBytes + HALF_SCALES[type];
        data.set([floatToHalf(bad) & 0xff, floatToHalf(bad) >> 8], at);
        const tensors = wide.tensors.map((tensor) =>
          tensor.name === "blk.0.ffn_down.weight" ? { ...tensor, type, data } : tensor,
        );
        expect(await refusal({ ...wide, tensors })).toMatchObject({
          code: "GGUF_TENSOR_NOT_FINITE",
          field: "blk.0.ffn_down.weight",
        });
      }
    },
  );

  it("rejects an MXFP4 scale that overflows f32", async () => {
    const data = randomTensor(new Dice(1), "MXFP4", 256 * 256, 0.1);
    data.set([254, 0x77], 0);
    const tensors = wide.tensors.map((tensor) =>
      tensor.name === "blk.0.ffn_down.weight" ? { ...tensor, type: "MXFP4" as const, data } : tensor,
    );
    expect(await refusal({ ...wide, tensors })).toMatchObject({ code: "GGUF_TENSOR_NOT_FINITE" });
  });

  it("rejects finite weights whose logits are not", async () => {
    const plan = replaced("output_norm.weight", (tensor) => ({
      ...tensor,
      data: encodeTensor("F32", new Float32Array(32).fill(3e38)),
    }));
    expect(await refusal(plan)).toMatchObject({ code: "BACKEND_NOT_FINITE" });
  });

  it("rejects a token past the vocabulary", async () => {
    const path = folder.file("model.gguf");
    await writeGguf(path, sound);
    await using model = await loadModel(path, { backend: "reference" });
    for (const token of [SPEC.vocabulary, -1, 2 ** 31, 2 ** 32, 1.5, Number.NaN]) {
      await expect(model.logits([1, token])).rejects.toMatchObject({ code: "TOKENIZER_TOKEN" });
    }
  });
});

describe("tensors", () => {
  const problemsOf = (error: unknown): readonly LayerProblem[] =>
    (error as ModelError).details["problems"] as readonly LayerProblem[];

  it("lists every missing, misshapen and unsupported tensor at once", async () => {
    const tensors = sound.tensors.flatMap((tensor): GgufPlan["tensors"] => {
      if (tensor.name === "blk.0.attn_q.weight" || tensor.name === "output_norm.weight") return [];
      if (tensor.name === "blk.1.ffn_norm.weight") return [{ ...tensor, shape: [16, 2] }];
      if (tensor.name === "blk.1.ffn_down.weight")
        return [{ ...tensor, shape: [48, 16], data: tensor.data.subarray(0, 48 * 16 * 4) }];
      if (tensor.name === "blk.0.ffn_norm.weight") return [{ ...tensor, type: "I32" }];
      return [tensor];
    });
    const error = await refusal({ ...sound, tensors });
    expect(error).toBeInstanceOf(ModelError);
    expect(error).toMatchObject({ code: "MODEL_INVALID" });
    const problems = problemsOf(error);
    expect(problems.map(({ subject }) => subject).toSorted()).toEqual([
      "blk.0.attn_q.weight",
      "blk.0.ffn_norm.weight",
      "blk.1.ffn_down.weight",
      "blk.1.ffn_norm.weight",
      "output_norm.weight",
    ]);
    const missing = problems.find(({ subject }) => subject === "blk.0.attn_q.weight");
    expect(missing).toMatchObject({ expected: "[32, 32]", found: expect.stringContaining("no such tensor") });
    // The first in the message, which is one line; the others beside it.
    const { message, more } = error as ModelError;
    expect(message).toContain(`${problems[0].subject}: expected ${problems[0].expected}, found`);
    expect(message).toContain("the first of 5 problems");
    expect(more.map((sentence) => sentence.split(":")[0])).toEqual(problems.slice(1).map(({ subject }) => subject));
    for (const { subject } of problems.slice(1)) expect(message).not.toContain(`${subject}:`);
  });

  it("asks for no output matrix where the embedding table is missing too", async () => {
    const tensors = sound.tensors.filter(({ name }) => name !== "token_embd.weight" && name !== "output.weight");
    const problems = problemsOf(await refusal({ ...sound, tensors }));
    expect(new Set(problems.map(({ subject }) => subject))).toEqual(new Set(["token_embd.weight"]));
  });

  it("rejects biases of three products beside one product", async () => {
    const fused = randomModel({ ...SPEC, fusedQkv: true });
    const bias: MadeTensor = { name: "blk.0.attn_q.bias", type: "F32", shape: [32], data: new Uint8Array(128) };
    expect(await refusal({ ...fused, tensors: [...fused.tensors, bias] })).toMatchObject({
      code: "MODEL_UNSUPPORTED",
      message: expect.stringContaining("blk.0.attn_q.bias"),
    });
  });
});
