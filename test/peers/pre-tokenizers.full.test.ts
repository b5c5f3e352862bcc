// Every pre-tokenizer and Gemma 4's vocabulary beside llama.cpp's own, on vocabularies learned from awkward texts: 10,000
// texts each.

import { afterAll, describe, expect, test } from "vitest";
import { GgufMetadata } from "../../src/gguf/metadata.js";
import { writeGguf } from "../../src/gguf/writer.js";
import { PRE_TOKENIZER_NAMES } from "../../src/tokenizer/pre-tokenizers.js";
import { createTokenizer } from "../../src/tokenizer/tokenizer.js";
import { TemporaryFolder } from "../support/temporary-folder.js";
import { loadPeerVocabulary, peerIsInstalled } from "./llama-cpp.js";
import { GEMMA4_MODEL, preTokenizerText, preTokenizerVocabulary } from "./pre-tokenizer-case.js";

const TEXTS = 10_000;
const FIRST_SEED = 50_000_000;
const REPORTED_DIFFERENCES = 3;

const folder = new TemporaryFolder();
afterAll(() => folder[Symbol.dispose]());

describe.skipIf(!peerIsInstalled)("beside llama.cpp (skipped without npm install --prefix bench/peers)", () => {
  test.each([GEMMA4_MODEL, ...PRE_TOKENIZER_NAMES])("%s: 10,000 awkward texts", async (name) => {
    const entries = preTokenizerVocabulary(name);
    const path = folder.file("vocabulary.gguf");
    await writeGguf(path, { metadata: entries, tensors: [] });
    const ours = createTokenizer(new GgufMetadata(entries));
    const peer = await loadPeerVocabulary(path);
    expect([ours.bosToken, ours.addsBos, ours.addsEos]).toEqual([
      peer.tokens.bos,
      peer.tokens.shouldPrependBosToken,
      peer.tokens.shouldAppendEosToken,
    ]);
    const differences: object[] = [];
    let compared = 0;
    for (let seed = FIRST_SEED; seed < FIRST_SEED + TEXTS && differences.length < REPORTED_DIFFERENCES; seed++) {
      const text = preTokenizerText(seed);
      const parseSpecial = seed % 2 === 0;
      const ids = ours.encode(text, { addSpecial: false, parseSpecial });
      const expected = peer.tokenize(text, parseSpecial);
      if (ids.join() !== expected.join()) differences.push({ seed, parseSpecial, text, ids: [...ids], expected });
      compared++;
    }
    await peer.dispose();
    expect(differences).toEqual([]);
    expect(compared).toBe(TEXTS);
  });
});
