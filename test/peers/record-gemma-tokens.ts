// Asks llama.cpp for what test/library/tokenizer/gemma.test.ts compares with; `node bench/peers/record.mjs` calls it.

import { writeGguf } from "../../src/gguf/writer.js";
import { Dice } from "../support/dice.js";
import { writePacked } from "../support/packed-json.js";
import { TemporaryFolder } from "../support/temporary-folder.js";
import { gemmaText, gemmaVocabulary } from "./gemma-vocabulary.js";
import { loadPeerVocabulary } from "./llama-cpp.js";

export const GEMMA_TOKENS_FILE = new URL("../fixtures/peers/gemma-tokens.json.br", import.meta.url);
export const GEMMA_VOCABULARY_SEED = 7;
const TEXTS = 80;

export interface RecordedTokens {
  readonly how: string;
  /** The ids of `gemmaText(seed)` without special tokens, and with them if they differ; one entry for each seed from 0 on. */
  readonly ids: readonly (readonly [plain: readonly number[], special?: readonly number[]])[];
}

export async function recordGemmaTokens(): Promise<number> {
  using folder = new TemporaryFolder();
  const path = folder.file("vocabulary.gguf");
  await writeGguf(path, { metadata: gemmaVocabulary(new Dice(GEMMA_VOCABULARY_SEED)), tensors: [] });
  const peer = await loadPeerVocabulary(path);
  const lines = Array.from({ length: TEXTS }, (_, seed) => {
    const [plain, special] = [false, true].map((parse) => peer.tokenize(gemmaText(seed), parse));
    return JSON.stringify(plain.join() === special.join() ? [plain] : [plain, special]);
  });
  await peer.dispose();
  const how = "node-llama-cpp 3.22.1 (llama.cpp v0.5.0)";
  writePacked(GEMMA_TOKENS_FILE, `{\n"how": ${JSON.stringify(how)},\n"ids": [\n${lines.join(",\n")}\n]\n}\n`);
  return lines.length;
}
