// What the tests of pre-tokenizers compare with llama.cpp: a vocabulary for each name, and texts.

import type { GgufEntry } from "../../src/gguf/entry.js";
import { preTokenizerByName } from "../../src/tokenizer/pre-tokenizers.js";
import { awkwardText } from "./awkward-text.js";
import { MARKS, trainedBpe, trainedText } from "./trained-vocabulary.js";

/** The vocabulary whose file names the tokenizer's model `gemma4` and no pre-tokenizer. */
export const GEMMA4_MODEL = "model gemma4";

/** A vocabulary for a name of `tokenizer.ggml.pre`, or for `GEMMA4_MODEL`. */
export function preTokenizerVocabulary(name: string): GgufEntry[] {
  if (name === GEMMA4_MODEL) return trainedText("gemma4");
  return preTokenizerByName(name).byteLevel ? trainedBpe(name) : trainedText("gpt2", name);
}

export function preTokenizerText(seed: number): string {
  return awkwardText(seed, MARKS);
}
