// What the thread that decodes a vocabulary is asked, and what it answers.

import type { MessagePort } from "node:worker_threads";
import type { FileIdentity } from "../gguf/byte-source.js";
import type { PrebuiltVocabulary } from "./prebuilt-vocabulary.js";

/** What the thread gets when it starts. */
export interface VocabularyQuestion {
  /** The model's file, which the thread opens itself: it can begin before anyone has read the header. */
  readonly path: string;
  /** Takes the answer. */
  readonly port: MessagePort;
}

/** The tables of a vocabulary and the file they are of. */
export interface DecodedVocabulary extends PrebuiltVocabulary {
  readonly file: FileIdentity;
}

/** The answer; undefined if the vocabulary has to be decoded by the caller, who can explain what is wrong with it. */
export type VocabularyAnswer = DecodedVocabulary | undefined;
