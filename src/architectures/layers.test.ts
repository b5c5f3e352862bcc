import { describe, expect, it } from "vitest";
import { GgufMetadata } from "../gguf/metadata.js";
import { GraphBuilder } from "../graph/builder.js";
import { kvShapeOf } from "../graph/program.js";
import { buildDecoder } from "./decoder.js";
import type { DecoderTraits, ModelSource } from "./descriptor.js";
import { HyperParameterReader } from "./hyper-parameter-reader.js";
import { readDecoderParameters } from "./hyper-parameters.js";
import { windowLayers } from "./sliding-window.js";

type Values = Parameters<typeof GgufMetadata.of>[0];

const TRAITS: DecoderTraits = {
  ropeStyle: "halves",
  sectionedRopeStyle: "halves",
  partialRotary: false,
  ropeFactors: undefined,
  normPlacement: "before",
  norm: "rms",
  queryKeyNorm: undefined,
  activation: "silu",
  gateAndUp: "separate",
};

function source(values: Values): ModelSource {
  const own = Object.fromEntries(Object.entries(values).map(([key, value]) => [`made.${key}`, value]));
  return {
    architecture: "made",
    metadata: GgufMetadata.of({
      "made.block_count": 3,
      "made.embedding_length": 64,
      "made.context_length": 128,
      "made.attention.key_length": 16,
      "made.attention.layer_norm_rms_epsilon": 1e-5,
      "made.vocab_size": 300,
      ...own,
    }),
    tensors: new Map(Array.from({ length: 9 }, (_, index) => [`tensor ${index}`, { shape: [1] }])),
    keyPrefix: "made",
    fileName: (name) => name,
  };
}

const COUNTS = {
  "attention.head_count": [4, 8, 2],
  "attention.head_count_kv": [2, 4, 2],
  feed_forward_length: [96, 128, 32],
};

describe("counts by layer", () => {
  it("become the layers' own", () => {
    const { layers } = readDecoderParameters(source(COUNTS), TRAITS);
    expect(layers.map(({ mixer }) => [mixer.heads, mixer.kvHeads])).toEqual([
      [4, 2],
      [8, 4],
      [2, 2],
    ]);
    expect(layers.map(({ feedForward }) => "width" in feedForward && feedForward.width)).toEqual([96, 128, 32]);
  });

  it("may be one number for all layers", () => {
    const values = { "attention.head_count": 4, feed_forward_length: 96 };
    const { layers } = readDecoderParameters(source(values), TRAITS);
    expect(layers.map(({ mixer }) => [mixer.heads, mixer.kvHeads])).toEqual(Array.from({ length: 3 }, () => [4, 4]));
  });

  it.each<[string, Values]>([
    ["attention.head_count", { ...COUNTS, "attention.head_count": [4, 8] }],
    ["attention.head_count", { ...COUNTS, "attention.head_count": [4, 8, 2, 2] }],
    ["attention.head_count", { ...COUNTS, "attention.head_count": [4, 0, 2] }],
    ["attention.head_count_kv", { ...COUNTS, "attention.head_count_kv": [2, 3, 2] }],
    ["feed_forward_length", { ...COUNTS, feed_forward_length: [96, -1, 32] }],
  ])("rejects %s for too few or too many layers or out of range", (field, values) => {
    expect(() => readDecoderParameters(source(values), TRAITS)).toThrow(
      expect.objectContaining({ code: "GGUF_HYPERPARAMETER", field: `made.${field}` }),
    );
  });

  it("may have entries for blocks that are not computed", () => {
    const predicting = { ...COUNTS, nextn_predict_layers: 1 };
    const { layers } = readDecoderParameters(source(predicting), TRAITS);
    expect(layers.map(({ mixer }) => mixer.heads)).toEqual([4, 8]);
  });

  it("give the cache a shape for each layer, and the graph shapes that fit", () => {
    const graph = new GraphBuilder({ fileName: (name) => name, hasTensor: () => false });
    const { kv, operations } = buildDecoder(graph, readDecoderParameters(source(COUNTS), TRAITS));
    expect(kv).toEqual({
      layers: 3,
      kvHeads: 4,
      keyWidth: 16,
      valueWidth: 16,
      byLayer: [2, 4, 2].map((kvHeads) => ({ kvHeads, keyWidth: 16, valueWidth: 16 })),
    });
    const written = operations.flatMap((operation) => (operation.kind === "kv-write" ? [operation.layer] : []));
    expect(written).toEqual([0, 1, 2]);
  });
});

describe("ropes of layers", () => {
  it("share a table if they are one object", () => {
    const parameters = readDecoderParameters(source(COUNTS), TRAITS);
    const [, second] = parameters.layers;
    const { rope } = second.mixer;
    if (rope === undefined) throw new TypeError("this family rotates");
    const [first, , third] = parameters.layers;
    const { rope: _none, ...unrotated } = third.mixer;
    const layers = [
      first,
      { ...second, mixer: { ...second.mixer, rope: { ...rope, base: 500 } } },
      { ...third, mixer: unrotated },
    ];
    const graph = new GraphBuilder({ fileName: (name) => name, hasTensor: () => false });
    const { ropes, operations } = buildDecoder(graph, { ...parameters, layers });
    expect(ropes).toHaveLength(2);
    const used = operations.flatMap((operation) => (operation.kind === "rope" ? [operation.rope] : []));
    expect(used).toEqual([0, 0, 1, 1]);
  });
});

describe("kvShapeOf", () => {
  it("is one shape if all layers are alike", () => {
    const layer = { kvHeads: 2, keyWidth: 8, valueWidth: 4 };
    expect(kvShapeOf([layer, { ...layer }])).toEqual({ layers: 2, ...layer });
  });
});

describe("windowLayers", () => {
  const pattern = (values: Values, list = false): string =>
    windowLayers(new HyperParameterReader(source(values)), { layers: 7, period: 3, list })
      .map((window) => (window ? "w" : "f"))
      .join("");
  const KEY = "attention.sliding_window_pattern";

  it.each<[string, Values, boolean, string]>([
    ["the family's period", {}, false, "wwfwwfw"],
    ["a period in the file", { [KEY]: 2 }, false, "wfwfwfw"],
    ["a period of 1", { [KEY]: 1 }, false, "fffffff"],
    ["a period of 0", { [KEY]: 0 }, false, "wwwwwww"],
    ["a list that does not count", { [KEY]: [true, false, true, true, true, true, true] }, false, "wwfwwfw"],
    [
      "a list that counts",
      { [KEY]: [true, false, true, true, false, true, true, false], block_count: 8 },
      true,
      "wfwwfww",
    ],
  ])("follows %s", (_, values, list, expected) => {
    expect(pattern(values, list)).toBe(expected);
  });

  it.each<[Values, boolean]>([
    [{ [KEY]: -1 }, false],
    [{ [KEY]: 2.5 }, false],
    [{ [KEY]: [true, false] }, true],
    [{ [KEY]: [true, false, true, true, false, true, true, false, false], block_count: 8 }, true],
  ])("rejects %j", (values, list) => {
    expect(() => pattern(values, list)).toThrow(expect.objectContaining({ code: "GGUF_HYPERPARAMETER" }));
  });
});
