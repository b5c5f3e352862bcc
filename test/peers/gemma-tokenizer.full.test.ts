// Gemma's SentencePiece without a space prefix beside llama.cpp's own, on made-up vocabularies: 10,000 awkward texts with
// runs of line feeds and spaces, HTML tags, placeholders, control tokens and characters that only bytes can spell.

import { afterAll, describe, expect, test } from "vitest";
import { GgufMetadata } from "../../src/gguf/metadata.js";
import { writeGguf } from "../../src/gguf/writer.js";
import { createTokenizer } from "../../src/tokenizer/tokenizer.js";
import { Dice } from "../support/dice.js";
import { TemporaryFolder } from "../support/temporary-folder.js";
import { gemmaText, gemmaVocabulary } from "./gemma-vocabulary.js";
import { loadPeerVocabulary, peerIsInstalled } from "./llama-cpp.js";

const VOCABULARIES = 5;
const TEXTS_PER_VOCABULARY = 2_000;
const REPORTED_DIFFERENCES = 3;

const folder = new TemporaryFolder();
afterAll(() => folder[Symbol.dispose]());

describe.skipIf(!peerIsInstalled)("beside llama.cpp (skipped without npm install --prefix bench/peers)", () => {
  test.each(Array.from({ length: VOCABULARIES }, (_, seed) => seed))("vocabulary %i", async (vocabularySeed) => {
    const entries = gemmaVocabulary(new Dice(vocabularySeed));
    const path = folder.file(`vocabulary-${vocabularySeed}.gguf`);
    await writeGguf(path, { metadata: entries, tensors: [] });
    const ours = createTokenizer(new GgufMetadata(entries));
    const peer = await loadPeerVocabulary(path);
    expect([...ours.endOfGeneration].toSorted((left, right) => left - right)).toEqual(
      Array.from({ length: ours.vocabularySize }, (_, id) => id).filter((id) => peer.isEogToken(id)),
    );
    expect([ours.bosToken, ours.eosToken, ours.addsBos, ours.addsEos]).toEqual([
      peer.tokens.bos,
      peer.tokens.eos,
      peer.tokens.shouldPrependBosToken,
      peer.tokens.shouldAppendEosToken,
    ]);
    const differences: object[] = [];
    const first = vocabularySeed * TEXTS_PER_VOCABULARY;
    for (let seed = first; seed < first + TEXTS_PER_VOCABULARY; seed++) {
      const text = gemmaText(seed);
      for (const parseSpecial of [false, true]) {
        const ids = [...ours.encode(text, { addSpecial: false, parseSpecial })];
        const expected = peer.tokenize(text, parseSpecial);
        if (ids.join() !== expected.join()) differences.push({ seed, parseSpecial, text, ids, expected });
      }
    }
    await peer.dispose();
    expect(differences.slice(0, REPORTED_DIFFERENCES)).toEqual([]);
  });
});
