// Gemma's SentencePiece without a space prefix, on a made-up vocabulary, against ids of llama.cpp that were recorded.

import { readPacked } from "../../support/packed-json.js";
import { expect, it } from "vitest";
import { GgufMetadata } from "../../../src/gguf/metadata.js";
import { createTokenizer } from "../../../src/tokenizer/tokenizer.js";
import { gemmaText, gemmaVocabulary } from "../../peers/gemma-vocabulary.js";
import { GEMMA_TOKENS_FILE, GEMMA_VOCABULARY_SEED, type RecordedTokens } from "../../peers/record-gemma-tokens.js";
import { Dice } from "../../support/dice.js";

const { ids: recorded } = readPacked(GEMMA_TOKENS_FILE) as RecordedTokens;
const tokenizer = createTokenizer(new GgufMetadata(gemmaVocabulary(new Dice(GEMMA_VOCABULARY_SEED))));

it("gives llama.cpp's ids, and the text back", () => {
  for (const [seed, [plain, special = plain]] of recorded.entries()) {
    // A written ▁ is a space to SentencePiece.
    const text = gemmaText(seed);
    const ids = tokenizer.encode(text, { addSpecial: false, parseSpecial: false });
    expect([...ids], `seed ${seed}`).toEqual(plain);
    expect(tokenizer.decode(ids), `seed ${seed}`).toBe(text.replaceAll("▁", " "));
    expect([...tokenizer.encode(text, { addSpecial: false, parseSpecial: true })], `seed ${seed}`).toEqual(special);
  }
});

it("puts no space before a text, and keeps runs of line feeds and spaces as tokens of their own", () => {
  const texts = (text: string): string[] =>
    [...tokenizer.encode(text, { addSpecial: false })].map((id) => tokenizer.tokenText(id));
  expect(texts("\n\n\n")).toEqual(["\n\n\n"]);
  expect(texts("\n".repeat(33))).toEqual(["\n".repeat(31), "\n\n"]);
  expect(texts("e    e")).toEqual(["e", "    ", "e"]);
  expect(texts("<table>\n\n</table>")).toEqual(["<table>", "\n\n", "</table>"]);
  expect(texts("e")).toEqual(["e"]);
});
