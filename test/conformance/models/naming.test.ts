// Files that do not name their architecture, or that keep the tensor names of the checkpoint they came from, give the same
// logits as the usual file.

import { afterAll, describe, expect, it } from "vitest";
import { type GgufPlan, writeGguf } from "../../../src/gguf/writer.js";
import { loadModel } from "../../../src/index.js";
import { TemporaryFolder } from "../../support/temporary-folder.js";
import { TYPE_CASES } from "./random-cases.js";
import { type RandomModel, randomModel, randomTokens } from "./random-model.js";

const TOKENS = randomTokens(9, 8);

const HUGGING_FACE: readonly (readonly [RegExp, string])[] = [
  [/^token_embd\./, "model.embed_tokens."],
  [/^output_norm\./, "model.norm."],
  [/^output\./, "lm_head."],
  [/^blk\.(\d+)\.attn_norm\./, "model.layers.$1.input_layernorm."],
  [/^blk\.(\d+)\.attn_([qkv])\./, "model.layers.$1.self_attn.$2_proj."],
  [/^blk\.(\d+)\.attn_([qk])_norm\./, "model.layers.$1.self_attn.$2_norm."],
  [/^blk\.(\d+)\.attn_output\./, "model.layers.$1.self_attn.o_proj."],
  [/^blk\.(\d+)\.post_attention_norm\./, "model.layers.$1.post_self_attn_layernorm."],
  [/^blk\.(\d+)\.ffn_norm\./, "model.layers.$1.post_attention_layernorm."],
  [/^blk\.(\d+)\.ffn_(gate|up|down)\./, "model.layers.$1.mlp.$2_proj."],
  [/^blk\.(\d+)\.post_ffw_norm\./, "model.layers.$1.post_mlp_layernorm."],
];
const META: readonly (readonly [RegExp, string])[] = [
  [/^token_embd\./, "transformer.tok_embeddings."],
  [/^output_norm\./, "transformer.norm."],
  [/^output\./, "transformer.output."],
  [/^blk\.(\d+)\.attn_norm\./, "transformer.layers.$1.attention_norm."],
  [/^blk\.(\d+)\.attn_([qkv])\./, "transformer.layers.$1.attention.w$2."],
  [/^blk\.(\d+)\.attn_output\./, "transformer.layers.$1.attention.wo."],
  [/^blk\.(\d+)\.ffn_gate\./, "transformer.layers.$1.feed_forward.w1."],
  [/^blk\.(\d+)\.ffn_down\./, "transformer.layers.$1.feed_forward.w2."],
  [/^blk\.(\d+)\.ffn_up\./, "transformer.layers.$1.feed_forward.w3."],
  [/^blk\./, "transformer.layers."],
];
const SCHEMES = { "model.layers.N": HUGGING_FACE, "transformer.layers.N": META, "blk.N": [] } as const;

const folder = new TemporaryFolder();
afterAll(() => folder[Symbol.dispose]());

const families = TYPE_CASES.filter(({ type }) => type === "F16");

async function logitsOf(plan: GgufPlan): Promise<{ architecture: string; logits: Float32Array }> {
  const path = folder.file("model.gguf");
  await writeGguf(path, plan);
  await using model = await loadModel(path, { backend: "reference" });
  return { architecture: model.plan.parameters.architecture, logits: await model.logits(TOKENS) };
}

function renamed(model: RandomModel, table: readonly (readonly [RegExp, string])[]): RandomModel {
  const rename = (name: string): string => {
    const found = table.find(([pattern]) => pattern.test(name));
    return found === undefined ? name : name.replace(found[0], found[1]);
  };
  return { ...model, tensors: model.tensors.map((tensor) => ({ ...tensor, name: rename(tensor.name) })) };
}

function withoutArchitecture(model: RandomModel, keyPrefix?: string): GgufPlan {
  const metadata = model.metadata.filter(({ key }) => key !== "general.architecture");
  if (keyPrefix === undefined) return { ...model, metadata };
  const own = metadata.map((entry) =>
    entry.key.startsWith("tokenizer.") ? entry : { ...entry, key: entry.key.replace(/^[^.]+/, keyPrefix) },
  );
  return { ...model, metadata: own };
}

describe.each(families)("$spec.architecture", ({ spec }) => {
  const model = randomModel(spec);

  describe.each(Object.entries(SCHEMES))("tensors named %s", (_, table) => {
    it("gives the usual logits", async () => {
      expect((await logitsOf(renamed(model, table))).logits).toEqual((await logitsOf(model)).logits);
    });

    it("is known without general.architecture", async () => {
      expect(await logitsOf(withoutArchitecture(renamed(model, table)))).toEqual(await logitsOf(model));
    });

    it("is known by its tensors where its keys have a prefix of their own", async () => {
      const found = await logitsOf(withoutArchitecture(renamed(model, table), "nameless"));
      expect(found.logits).toEqual((await logitsOf(model)).logits);
    });
  });

  it("reads GGUF's own names below another prefix", async () => {
    const below = renamed(model, [[/^blk\./, "model.layers."]]);
    expect((await logitsOf(withoutArchitecture(below))).logits).toEqual((await logitsOf(model)).logits);
  });
});

it("reads gate and up in one product by its checkpoint's name", async () => {
  const model = randomModel((families.find(({ spec }) => spec.architecture === "glm4") ?? families[0]).spec);
  const found = await logitsOf(
    renamed(model, [[/^blk\.(\d+)\.ffn_up\./, "model.layers.$1.mlp.gate_up_proj."], ...HUGGING_FACE]),
  );
  expect(found.logits).toEqual((await logitsOf(model)).logits);
});

it("rejects a file whose tensors belong to no family", async () => {
  const [{ spec }] = families;
  const model = randomModel(spec);
  const strange = renamed(model, [[/^blk\.(\d+)\./, "stage.$1."]]);
  await expect(logitsOf(withoutArchitecture(strange, "nameless"))).rejects.toMatchObject({
    code: "MODEL_ARCHITECTURE",
  });
});

it("rejects an architecture nobody knows, whatever its tensors", async () => {
  const model = randomModel(families[0].spec);
  const metadata = model.metadata.map((entry) =>
    entry.key === "general.architecture" ? { ...entry, value: "gpt-neox" } : entry,
  ) as RandomModel["metadata"];
  await expect(logitsOf({ ...model, metadata })).rejects.toMatchObject({
    code: "MODEL_ARCHITECTURE",
    message: expect.stringContaining("gpt-neox"),
  });
});
