// Asks llama.cpp for what test/library/tokenizer/pre-tokenizers.test.ts compares with; `node bench/peers/record.mjs`
// calls it.

import { createHash } from "node:crypto";
import { writeGguf } from "../../src/gguf/writer.js";
import { PRE_TOKENIZER_NAMES } from "../../src/tokenizer/pre-tokenizers.js";
import { writePacked } from "../support/packed-json.js";
import { TemporaryFolder } from "../support/temporary-folder.js";
import { loadPeerVocabulary } from "./llama-cpp.js";
import { GEMMA4_MODEL, preTokenizerText, preTokenizerVocabulary } from "./pre-tokenizer-case.js";

export const PRE_TOKENIZER_IDS_FILE = new URL("../fixtures/peers/pre-tokenizers.json.br", import.meta.url);
/** Seeds of the texts, from 0 on. */
export const RECORDED_TEXTS = 60;

export interface RecordedIds {
  readonly how: string;
  /** By name, the digest of the ids of each text, two hexadecimal digits a text. */
  readonly digests: Readonly<Record<string, string>>;
}

/** Two digits for each text: enough that a difference shows, and which texts differ. */
export function digestOf(encode: (text: string) => ArrayLike<number>): string {
  return Array.from({ length: RECORDED_TEXTS }, (_, seed) => {
    const ids = Int32Array.from(encode(preTokenizerText(seed)));
    return createHash("sha256").update(ids).digest("hex").slice(0, 2);
  }).join("");
}

export async function recordPreTokenizers(): Promise<number> {
  using folder = new TemporaryFolder();
  const path = folder.file("vocabulary.gguf");
  const lines: string[] = [];
  for (const name of [GEMMA4_MODEL, ...PRE_TOKENIZER_NAMES]) {
    await writeGguf(path, { metadata: preTokenizerVocabulary(name), tensors: [] });
    const peer = await loadPeerVocabulary(path);
    lines.push(`${JSON.stringify(name)}: ${JSON.stringify(digestOf((text) => peer.tokenize(text, false)))}`);
    await peer.dispose();
  }
  const how = "node-llama-cpp 3.22.1 (llama.cpp v0.5.0)";
  writePacked(PRE_TOKENIZER_IDS_FILE, `{\n"how": ${JSON.stringify(how)},\n"digests": {\n${lines.join(",\n")}\n}\n}\n`);
  return lines.length;
}
