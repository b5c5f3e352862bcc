// Every pre-tokenizer, and Gemma 4's vocabulary, against ids of llama.cpp that were recorded as digests. Where one
// differs, test/peers/pre-tokenizers.full.test.ts shows text and ids.

import { describe, expect, it, test } from "vitest";
import { GgufMetadata } from "../../../src/gguf/metadata.js";
import { PRE_TOKENIZER_NAMES } from "../../../src/tokenizer/pre-tokenizers.js";
import { createTokenizer, type Tokenizer } from "../../../src/tokenizer/tokenizer.js";
import { GEMMA4_MODEL, preTokenizerText, preTokenizerVocabulary } from "../../peers/pre-tokenizer-case.js";
import {
  digestOf,
  PRE_TOKENIZER_IDS_FILE,
  RECORDED_TEXTS,
  type RecordedIds,
} from "../../peers/record-pre-tokenizers.js";
import { readPacked } from "../../support/packed-json.js";

const { digests } = readPacked(PRE_TOKENIZER_IDS_FILE) as RecordedIds;
const tokenizerOf = (name: string): Tokenizer => createTokenizer(new GgufMetadata(preTokenizerVocabulary(name)));

test("every name is recorded", () => {
  expect(Object.keys(digests)).toEqual([GEMMA4_MODEL, ...PRE_TOKENIZER_NAMES]);
});

test.each(Object.entries(digests))("%s gives llama.cpp's ids", (name, digest) => {
  const tokenizer = tokenizerOf(name);
  expect(digestOf((text) => tokenizer.encode(text, { addSpecial: false, parseSpecial: false }))).toBe(digest);
});

describe("a vocabulary of Gemma 4's kind", () => {
  const tokenizer = tokenizerOf(GEMMA4_MODEL);
  const texts = (text: string): string[] =>
    [...tokenizer.encode(text, { addSpecial: false })].map((id) => tokenizer.tokenText(id));

  it("always adds BOS, and gives every text back", () => {
    expect(tokenizer.addsBos).toBe(true);
    expect(tokenizer.encode("x")[0]).toBe(tokenizer.bosToken);
    for (let seed = 0; seed < RECORDED_TEXTS; seed++) {
      const text = preTokenizerText(seed);
      expect(tokenizer.decode(tokenizer.encode(text, { parseSpecial: false }))).toBe(text);
    }
  });

  it("looks a run of line feeds up whole, and spells a longer one by its characters", () => {
    expect(texts("\n\n\n")).toEqual(["\n\n\n"]);
    expect(texts("\n".repeat(5))).toEqual(Array.from({ length: 5 }, () => "\n"));
    expect(texts("\n".repeat(8))).toEqual(["\n".repeat(8)]);
  });

  it("spells what it does not know in bytes", () => {
    expect(texts("\u{10ffff}")).toEqual(["<0xF4>", "<0x8F>", "<0xBF>", "<0xBF>"]);
  });
});
