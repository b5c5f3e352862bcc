// Draft heads in a file of their own: found beside the model or named as its draft model, they give what a head inside of
// the model gives; one that does not fit is refused where it was asked for, and ignored where it only lies there.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { ReferenceBackend } from "../../../src/backends/reference/backend.js";
import { arr, f32, str, u32 } from "../../../src/gguf/entry.js";
import { writeGguf } from "../../../src/gguf/writer.js";
import { Model } from "../../../src/model/model.js";
import type { OpenOptions } from "../../../src/model/opening.js";
import { draftHeadModel, familyModel, type FamilyShape } from "../../conformance/models/family-model.js";
import { TemporaryFolder } from "../../support/temporary-folder.js";

const LAYERS = 2;
const KEYS = [
  u32("full_attention_interval", 2),
  u32("ssm.conv_kernel", 4),
  u32("ssm.state_size", 16),
  u32("ssm.group_count", 2),
  u32("ssm.time_step_rank", 4),
  u32("ssm.inner_size", 64),
  arr("rope.dimension_sections", "int32", [3, 3, 2, 0]),
];
const SHAPE: FamilyShape = {
  architecture: "qwen35",
  layers: LAYERS,
  width: 64,
  headWidth: 16,
  vocabularySize: 300,
  keys: () => KEYS,
};
const PROMPT = Int32Array.from({ length: 20 }, (_, index) => 3 + ((index * 7) % 31));

const folder = new TemporaryFolder();
afterAll(() => folder[Symbol.dispose]());

/** A folder with a model without a head, and optionally the head of `from` beside it; returns both paths. */
async function writeApart(name: string, from: FamilyShape = SHAPE, headName = "mtp-model.gguf") {
  const place = folder.file(name);
  mkdirSync(place);
  const paths = { model: join(place, "model.gguf"), head: join(place, headName) };
  const whole = draftHeadModel(5, from);
  await writeGguf(paths.model, familyModel(5, SHAPE));
  const isShared = (tensor: string): boolean => !tensor.startsWith("blk.") || tensor.startsWith(`blk.${from.layers}.`);
  await writeGguf(paths.head, { ...whole, tensors: whole.tensors.filter((tensor) => isShared(tensor.name)) });
  return paths;
}

async function drafted(path: string, options: OpenOptions) {
  await using model = await Model.open(path, new ReferenceBackend(), { contextTokens: 128, ...options });
  const completion = model.generate(PROMPT, { temperature: 0, maxTokens: 24, ignoreEndOfGeneration: true });
  const { text, timings } = await completion.result;
  return { text, drafted: timings.draftedTokens, hasHead: model.plan.draftHead !== undefined };
}

describe("a draft head in a file of its own", () => {
  it("drafts what it drafts inside of the model, found beside it or named", async () => {
    const whole = folder.file("whole.gguf");
    await writeGguf(whole, draftHeadModel(5, SHAPE));
    const expected = await drafted(whole, { draft: "mtp" });
    expect(expected.drafted).toBeGreaterThan(0);
    const { model, head } = await writeApart("beside");
    expect(await drafted(model, { draft: "mtp" })).toEqual(expected);
    expect((await drafted(model, {})).hasHead).toBe(true);
    expect((await drafted(model, { draft: "ngram" })).hasHead).toBe(false);
    const elsewhere = await writeApart("named", SHAPE, "head.gguf");
    expect((await drafted(elsewhere.model, {})).hasHead).toBe(false);
    expect(await drafted(elsewhere.model, { draftModel: head, draft: "mtp" })).toEqual(expected);
    expect((await drafted(elsewhere.model, { draftModel: elsewhere.head })).hasHead).toBe(true);
  });

  it("is not a model, and no mode may contradict it", async () => {
    const { model, head } = await writeApart("contradictions");
    await expect(drafted(head, {})).rejects.toThrow(/found a draft head .* mtp-\*\.gguf in its folder/);
    await expect(drafted(model, { draftModel: head, draft: "ngram" })).rejects.toMatchObject({ code: "OPTION_VALUE" });
  });

  it.for([
    ["another width", { ...SHAPE, width: 128 }, /embedding_length/],
    ["another architecture", { ...SHAPE, architecture: "qwen35moe", keys: undefined }, /general\.architecture/],
    ["another number of layers", { ...SHAPE, layers: LAYERS + 2 }, /block_count/],
  ] as const)("of %s is ignored beside a model, and refused where it is asked for", async ([name, shape, reason]) => {
    const keys = () => [
      ...KEYS,
      u32("expert_count", 4),
      u32("expert_used_count", 2),
      u32("expert_feed_forward_length", 32),
      u32("expert_shared_feed_forward_length", 24),
    ];
    const { model, head } = await writeApart(name, shape.keys === undefined ? { ...shape, keys } : shape);
    expect(await drafted(model, {})).toMatchObject({ hasHead: false });
    await expect(drafted(model, { draft: "mtp" })).rejects.toThrow(reason);
    await expect(drafted(model, { draftModel: head })).rejects.toThrow(reason);
  });

  it("changes nothing in the model, whatever its file says", async () => {
    const { model, head } = await writeApart("other numbers");
    const plain = await drafted(model, { draft: "off" });
    const { metadata, tensors } = draftHeadModel(5, SHAPE);
    const changed = new Map([
      ["qwen35.rope.freq_base", f32("qwen35.rope.freq_base", 77)],
      ["qwen35.attention.layer_norm_rms_epsilon", f32("qwen35.attention.layer_norm_rms_epsilon", 0.5)],
      ["qwen35.full_attention_interval", u32("qwen35.full_attention_interval", 1)],
    ]);
    await writeGguf(head, {
      metadata: [
        ...metadata.map((entry) => changed.get(entry.key) ?? entry),
        str("qwen35.rope.scaling.type", "linear"),
        f32("qwen35.rope.scaling.factor", 4),
      ],
      tensors: tensors.filter(({ name }) => name.startsWith(`blk.${LAYERS}.`)),
    });
    const { text, hasHead } = await drafted(model, { draft: "mtp" });
    expect({ text, hasHead }).toEqual({ text: plain.text, hasHead: true });
  });

  it("is found beside a model that says it has none of its own", async () => {
    const { model } = await writeApart("says none");
    const { metadata, tensors } = familyModel(5, SHAPE);
    await writeGguf(model, { metadata: [...metadata, u32("qwen35.nextn_predict_layers", 0)], tensors });
    expect(await drafted(model, {})).toMatchObject({ hasHead: true });
  });

  it("with a tensor of the wrong shape does not keep the model from running", async () => {
    const { model, head } = await writeApart("shape");
    const { metadata, tensors } = draftHeadModel(5, SHAPE);
    const norm = tensors.find(({ name }) => name.endsWith("nextn.enorm.weight")) as (typeof tensors)[number];
    const wrong = { ...norm, shape: [32], data: new Uint8Array(32 * 4) };
    await writeGguf(head, {
      metadata,
      tensors: [...tensors.filter(({ name }) => name.startsWith(`blk.${LAYERS}.`) && name !== norm.name), wrong],
    });
    expect(await drafted(model, {})).toMatchObject({ hasHead: false });
    await expect(drafted(model, { draft: "mtp" })).rejects.toThrow(/nextn\.enorm\.weight/);
  });

  it("that is no GGUF file is ignored beside a model", async () => {
    const { model, head } = await writeApart("broken");
    writeFileSync(head, "nothing of the kind");
    expect(await drafted(model, {})).toMatchObject({ hasHead: false });
    await expect(drafted(model, { draft: "mtp" })).rejects.toThrow(/GGUF/);
  });
});
