import { describe, expect, it } from "vitest";
import { GgufMetadata } from "../../gguf/metadata.js";
import type { AttentionParameters } from "../descriptor.js";
import { gemma2 } from "./gemma2.js";
import { gemma3 } from "./gemma3.js";

type Values = Parameters<typeof GgufMetadata.of>[0];

function read(family: "gemma2" | "gemma3", values: Values = {}): AttentionParameters {
  const own = Object.entries({
    block_count: 13,
    embedding_length: 96,
    context_length: 1024,
    feed_forward_length: 64,
    "attention.head_count": 4,
    "attention.head_count_kv": 2,
    "attention.key_length": 32,
    "attention.value_length": 32,
    "attention.layer_norm_rms_epsilon": 1e-6,
    vocab_size: 300,
    ...values,
  }).map(([key, value]) => [`${family}.${key}`, value] as const);
  return (family === "gemma2" ? gemma2 : gemma3).readHyperParameters({
    architecture: family,
    metadata: GgufMetadata.of(Object.fromEntries(own)),
    tensors: new Map(Array.from({ length: 99 }, (_, index) => [`tensor ${index}`, { shape: [1] }])),
    keyPrefix: family,
    fileName: (name) => name,
  }) as AttentionParameters;
}

const windowsOf = ({ layers }: AttentionParameters): (number | undefined)[] => layers.map(({ mixer }) => mixer.window);
const basesOf = ({ layers }: AttentionParameters): (number | undefined)[] =>
  layers.map(({ mixer }) => mixer.rope?.base);

describe("gemma2", () => {
  it("has its own window, soft-caps and scales if the file states none", () => {
    const parameters = read("gemma2");
    expect(windowsOf(parameters)).toEqual(
      Array.from({ length: 13 }, (_, layer) => (layer % 2 === 0 ? 4096 : undefined)),
    );
    expect(parameters.layers.map(({ mixer }) => mixer.softCap)).toEqual(Array.from({ length: 13 }, () => 50));
    expect(parameters).toMatchObject({ logitSoftCap: 30, embeddingScale: Math.fround(Math.sqrt(96)) });
    expect(parameters.layers[0].mixer.scale).toBe(1 / Math.sqrt(32));
    expect(new Set(basesOf(parameters))).toEqual(new Set([10_000]));
  });

  it("takes the file's numbers", () => {
    const parameters = read("gemma2", {
      "attention.sliding_window": 7,
      attn_logit_softcapping: 11,
      final_logit_softcapping: 12,
      "rope.freq_base": 500,
      "rope.freq_base_swa": 600,
    });
    expect(parameters.layers[0].mixer).toMatchObject({ window: 7, softCap: 11, rope: { base: 600 } });
    expect(parameters.layers[1].mixer).toMatchObject({ softCap: 11, rope: { base: 500 } });
    expect(parameters.logitSoftCap).toBe(12);
  });

  it("has another scale with 46 layers", () => {
    expect(read("gemma2", { block_count: 46 }).layers[0].mixer.scale).toBe(1 / Math.sqrt(96 / 4));
  });
});

describe("gemma3", () => {
  it("has five window layers to a full one, with bases of their own, if the file states a window", () => {
    const parameters = read("gemma3", { "attention.sliding_window": 16, "rope.freq_base": 1_000_000 });
    const expected = Array.from({ length: 13 }, (_, layer) => (layer % 6 === 5 ? undefined : 16));
    expect(windowsOf(parameters)).toEqual(expected);
    expect(basesOf(parameters)).toEqual(expected.map((window) => (window === undefined ? 1_000_000 : 10_000)));
  });

  it("has no windows if the file states none", () => {
    for (const parameters of [read("gemma3"), read("gemma3", { "attention.sliding_window": 0 })]) {
      expect(windowsOf(parameters)).toEqual(Array.from({ length: 13 }, () => undefined));
    }
  });

  it("scales the positions of full layers only", () => {
    const { layers } = read("gemma3", {
      "attention.sliding_window": 16,
      "rope.scaling.type": "linear",
      "rope.scaling.factor": 8,
    });
    expect(layers.map(({ mixer }) => mixer.rope?.scaling.factor).slice(3, 7)).toEqual([1, 1, 8, 1]);
  });

  it("has no soft-caps, but for logits with the key", () => {
    expect(read("gemma3", { attn_logit_softcapping: 50 }).layers[0].mixer.softCap).toBeUndefined();
    expect(read("gemma3").logitSoftCap).toBeUndefined();
    expect(read("gemma3", { final_logit_softcapping: 0 }).logitSoftCap).toBeUndefined();
    expect(read("gemma3", { final_logit_softcapping: 20 }).logitSoftCap).toBe(20);
  });

  it("has another scale with 62 layers", () => {
    expect(read("gemma3", { block_count: 62 }).layers[61].mixer.scale).toBe(1 / Math.sqrt(96 / 4));
  });
});

describe.each(["gemma2", "gemma3"] as const)("%s", (family) => {
  it.each<[string, number]>([
    ["attention.sliding_window", -1],
    ["attention.sliding_window", 2.5],
    ["attention.sliding_window", 2 ** 52],
    ["attention.sliding_window_pattern", -2],
    ["final_logit_softcapping", -1],
    ["rope.freq_base", 0],
  ])("rejects %s of %d", (key, value) => {
    expect(() => read(family, { [key]: value })).toThrow(
      expect.objectContaining({ code: "GGUF_HYPERPARAMETER", field: `${family}.${key}` }),
    );
  });
});
