import { describe, expect, it } from "vitest";
import { encodeHeader } from "../../gguf/header-encoder.js";
import { GgufMetadata } from "../../gguf/metadata.js";
import { createTokenizer } from "../../tokenizer/tokenizer.js";
import { synthPlan } from "./model-plan.js";
import { type ModelShape, ropeDivisors, SHAPES } from "./shape.js";
import { matrixType, MIX_NAMES, type MixName } from "./type-mix.js";
import { vocabularyEntries } from "./vocabulary.js";

type ShapeName = keyof typeof SHAPES;

const SMALL_VOCABULARY: ModelShape["vocabulary"] = {
  kind: "spm",
  size: 512,
  control: { 1: "<s>", 2: "</s>" },
  bos: 1,
  eos: 2,
  addsBos: true,
};

/** Types do not depend on the vocabulary, which takes longest to make. */
const typesOf = (name: ShapeName, mix: MixName): ReadonlyMap<string, string> => {
  const { tensors } = synthPlan(name, { ...SHAPES[name], vocabulary: SMALL_VOCABULARY }, { mix, seed: 1 });
  return new Map(tensors.map((tensor) => [tensor.name, tensor.type]));
};

describe("sizes", () => {
  // Of the files that people download.
  it.each([
    ["llama3-1b", "Q4_K_M", 807.7],
    ["llama3-1b", "Q8_0", 1321],
    ["llama3-8b", "Q4_K_M", 4920.7],
    ["tinyllama", "Q4_K_M", 668.8],
    ["mistral-7b", "Q4_K_M", 4368.4],
    ["qwen2-0.5b", "Q4_K_M", 397.8],
  ] as const)("%s in %s weighs about %d MB, as the real one does", (name, mix, megabytes) => {
    const { fileBytes } = encodeHeader(synthPlan(name, SHAPES[name], { mix, seed: 1 }));
    expect(Math.abs(fileBytes / 1e6 / megabytes - 1)).toBeLessThan(0.005);
  });

  // Of the files that llama.cpp's figures were measured with.
  it.each([
    ["qwen3-30b-a3b", "Q4_K", 17.3],
    ["gpt-oss-20b", "MXFP4_MOE", 12.1],
    ["gemma3-12b", "Q4_K", 6.9],
    ["glm4.7-flash", "Q4_K", 17.1],
    ["qwen35-35b-a3b", "Q4_K", 19.7],
  ] as const)("%s in %s weighs about %d GB", (name, mix, gigabytes) => {
    const { fileBytes } = encodeHeader(synthPlan(name, SHAPES[name], { mix, seed: 1 }));
    expect(Math.abs(fileBytes / 1e9 / gigabytes - 1)).toBeLessThan(0.02);
  });
});

describe("llama3-8b", () => {
  it("has as many tensors, tokens and merges as the real one, which bench/open.ts relies on", () => {
    const { metadata, tensors } = synthPlan("llama3-8b", SHAPES["llama3-8b"], { mix: "Q4_K_M", seed: 1 });
    const arrays = new GgufMetadata(metadata);
    expect(tensors).toHaveLength(291);
    expect(arrays.array("tokenizer.ggml.tokens")?.length).toBe(128_256);
    expect(arrays.array("tokenizer.ggml.merges")?.length).toBe(280_147);
  });
});

describe("mixes of types", () => {
  it("gives Q4_K_M finer values and down products in the first and the last eighth and every third layer", () => {
    const types = typesOf("llama3-1b", "Q4_K_M");
    const fine = (part: string): number[] =>
      Array.from({ length: 16 }, (_, layer) => layer).filter(
        (layer) => types.get(`blk.${layer}.${part}.weight`) === "Q6_K",
      );
    expect(fine("attn_v")).toEqual([0, 1, 4, 7, 10, 13, 14, 15]);
    expect(fine("ffn_down")).toEqual([0, 1, 4, 7, 10, 13, 14, 15]);
    expect(fine("attn_q")).toEqual([]);
  });

  it("gives the output matrix a finer type, tied or not", () => {
    expect(typesOf("llama3-1b", "Q4_0").get("token_embd.weight")).toBe("Q6_K");
    expect(typesOf("llama3-1b", "Q4_0").has("output.weight")).toBe(false);
    expect(typesOf("llama3-8b", "Q4_0").get("token_embd.weight")).toBe("Q4_0");
    expect(typesOf("llama3-8b", "Q4_0").get("output.weight")).toBe("Q6_K");
    expect(typesOf("llama3-8b", "Q8_0").get("output.weight")).toBe("Q8_0");
    expect(typesOf("llama3-8b", "F16").get("output.weight")).toBe("F16");
  });

  it("falls back to smaller blocks if rows are not a whole number of large ones", () => {
    const types = typesOf("qwen2-0.5b", "Q4_K_M");
    expect([
      types.get("blk.5.attn_q.weight"),
      types.get("token_embd.weight"),
      types.get("blk.0.ffn_down.weight"),
    ]).toEqual(["Q5_0", "Q8_0", "Q6_K"]);
  });

  it.each(MIX_NAMES)("%s has a type for every matrix of every shape", (mix) => {
    for (const name of Object.keys(SHAPES) as ShapeName[]) {
      expect(() =>
        encodeHeader({
          metadata: [],
          tensors: synthPlan(name, { ...SHAPES[name], layers: 2, vocabulary: SMALL_VOCABULARY }, { mix, seed: 1 })
            .tensors,
        }),
      ).not.toThrow();
    }
  });

  it("keeps rows that fit no block unquantized", () => {
    const place = { part: "attn_q", width: 40, layer: 0, layers: 1, queryGroup: 1, tied: false };
    expect(matrixType("Q4_K_M", place)).toBe("F16");
  });
});

describe("vocabularies", () => {
  it.each(["llama3-1b", "qwen2-0.5b", "tinyllama"] as const)(
    "of %s is whole, has no token twice, and cuts and joins text",
    (name) => {
      const { vocabulary } = SHAPES[name] as ModelShape;
      const metadata = new GgufMetadata(vocabularyEntries(vocabulary));
      const tokens = metadata.array("tokenizer.ggml.tokens")?.toStrings() ?? [];
      expect(tokens).toHaveLength(vocabulary.size);
      expect(new Set(tokens).size).toBe(vocabulary.size);
      expect(metadata.array("tokenizer.ggml.merges")?.length).toBe(vocabulary.merges);
      const tokenizer = createTokenizer(metadata);
      const text = "Once upon a time, naïve 東京 \n there was a cab";
      const ids = tokenizer.encode(text, { addSpecial: false, parseSpecial: false });
      expect(tokenizer.decode(ids)).toBe(text);
      expect(ids.length).toBeLessThan(Buffer.byteLength(text));
    },
  );

  it("has pairs of tokens that make a token", () => {
    const metadata = new GgufMetadata(vocabularyEntries(SHAPES["llama3-1b"].vocabulary));
    const tokens = new Set(metadata.array("tokenizer.ggml.tokens")?.toStrings());
    const wrong = (metadata.array("tokenizer.ggml.merges")?.toStrings() ?? []).filter((merge) => {
      const [left, right] = merge.split(" ");
      return !tokens.has(left) || !tokens.has(right) || !tokens.has(left + right);
    });
    expect(wrong).toEqual([]);
  });
});

describe("rope divisors", () => {
  it("are those of Llama 3.2: 1 for fast rotations, 32 for slow ones", () => {
    const divisors = ropeDivisors(SHAPES["llama3-1b"]);
    expect(divisors).toHaveLength(32);
    expect([divisors[0], divisors.at(-1)]).toEqual([1, 32]);
    expect(divisors).toEqual(divisors.toSorted((left, right) => left - right));
  });
});

describe("draft heads", () => {
  it("are one more block, if they are asked for", () => {
    const shape = { ...SHAPES["qwen35-35b-a3b"], layers: 4 };
    const plain = synthPlan("qwen35-35b-a3b", shape, { mix: "Q4_K", seed: 1 });
    const drafting = synthPlan("qwen35-35b-a3b", shape, { mix: "Q4_K", seed: 1, draftHead: true });
    const added = drafting.tensors.map(({ name }) => name).slice(plain.tensors.length);
    expect(added).toEqual(expect.arrayContaining(["blk.4.nextn.eh_proj.weight", "blk.4.ffn_up_exps.weight"]));
    expect(added.every((name) => name.startsWith("blk.4."))).toBe(true);
    expect(drafting.metadata).toContainEqual({ key: "qwen35moe.block_count", type: "uint32", value: 5 });
  });

  it("rejects shapes whose architecture has none", () => {
    const options = { mix: "Q4_K", seed: 1, draftHead: true } as const;
    expect(() => synthPlan("llama3-1b", SHAPES["llama3-1b"], options)).toThrow(/draft-head/);
  });
});
