import { describe, expect, it } from "vitest";
import { chooseFiles, modelsAmong, quantOf } from "./file-choice.js";

const FILES = [
  "README.md",
  "imatrix.gguf",
  "model-F16.gguf",
  "model-Q4_K_M.gguf",
  "model-Q4_K_S.gguf",
  "model-Q8_0.gguf",
  "model-UD-Q4_K_XL.gguf",
  "mmproj-model-Q8_0.gguf",
  "mtp-model-Q4_K_M.gguf",
  "eagle3-model-Q4_K_M.gguf",
  "dflash-model-Q4_K_M.gguf",
  "BF16/model-BF16-00001-of-00002.gguf",
  "BF16/model-BF16-00002-of-00002.gguf",
  "IQ1_S/model-00001-of-00002.gguf",
];

const choose = (files: readonly string[], wish = {}): readonly string[] => chooseFiles("hf:u/r", files, wish).paths;
const without = (...names: string[]): readonly string[] =>
  FILES.filter((file) => !names.some((name) => file.includes(name)));

describe("the files of a model", () => {
  it("are Q4_K_M, then Q8_0, then the first model file", () => {
    expect(choose(FILES)).toEqual(["model-Q4_K_M.gguf"]);
    expect(choose(without("model-Q4_K_M"))).toEqual(["model-Q8_0.gguf"]);
    expect(choose(["z.gguf", "mmproj-a.gguf", "b.gguf"])).toEqual(["b.gguf"]);
  });

  it("are those of a quantisation, in any case, also if a folder is named after it", () => {
    expect(choose(FILES, { quant: "q4_k_s" })).toEqual(["model-Q4_K_S.gguf"]);
    expect(choose(FILES, { quant: "UD-Q4_K_XL" })).toEqual(["model-UD-Q4_K_XL.gguf"]);
    expect(choose(["Q6_K/model.gguf", "model-Q8_0.gguf"], { quant: "Q6_K" })).toEqual(["Q6_K/model.gguf"]);
  });

  it("are all parts of a split model, whichever is named", () => {
    const parts = ["BF16/model-BF16-00001-of-00002.gguf", "BF16/model-BF16-00002-of-00002.gguf"];
    expect(choose(FILES, { quant: "BF16" })).toEqual(parts);
    expect(choose(FILES, { file: parts[1] })).toEqual(parts);
  });

  it("may be a companion if it is named", () => {
    expect(choose(FILES, { file: "mmproj-model-Q8_0.gguf" })).toEqual(["mmproj-model-Q8_0.gguf"]);
  });

  it.each([
    ["a quantisation that is not there", { quant: "Q5_0" }],
    ["a part of a quantisation's name", { quant: "Q4_K" }],
    ["a file that is not there", { file: "other.gguf" }],
    ["a split model with a missing part", { quant: "IQ1_S" }],
    ["a split file with a missing part", { file: "IQ1_S/model-00001-of-00002.gguf" }],
  ])("rejects %s with what there is", (_, wish) => {
    const found = expect.stringContaining("model-Q4_K_M.gguf") as string;
    expect(() => choose(FILES, wish)).toThrow(
      expect.objectContaining({ code: "HUB_NOT_FOUND", message: found }) as Error,
    );
  });

  it("rejects a repository without models", () => {
    expect(() => choose(["README.md", "model.safetensors", "mmproj.gguf"])).toThrow(/no GGUF model/);
  });
});

it("lists models, not companions and later parts", () => {
  expect(modelsAmong(FILES).map(({ first }) => first)).toEqual([
    "BF16/model-BF16-00001-of-00002.gguf",
    "model-F16.gguf",
    "model-Q4_K_M.gguf",
    "model-Q4_K_S.gguf",
    "model-Q8_0.gguf",
    "model-UD-Q4_K_XL.gguf",
  ]);
});

it("finds quantisations in names", () => {
  const names = [
    "m-Q4_K_M.gguf",
    "m.IQ2_XXS.gguf",
    "Q8_0/m-00001-of-00002.gguf",
    "m-TQ1_0.gguf",
    "m-bf16.gguf",
    "m.gguf",
  ];
  expect(names.map(quantOf)).toEqual(["Q4_K_M", "IQ2_XXS", "Q8_0", "TQ1_0", "bf16", undefined]);
});
