// The worker thread that decodes the vocabulary of one file and ends. The file is untrusted: its header is read within
// the limits of gguf, and whatever is wrong or unusual with it is left to the main thread, which has the errors. It
// imports little and is bundled into one file, because it has to be done before the model's weights have arrived.

import { workerData } from "node:worker_threads";
import { ByteSource } from "../gguf/byte-source.js";
import { readHeader } from "../gguf/header.js";
import { MergeTable, type MergeTables } from "./merge-table.js";
import { tokenizerArrays } from "./tokenizer-metadata.js";
import { Vocabulary } from "./vocabulary.js";
import type { VocabularyAnswer, VocabularyQuestion } from "./vocabulary-message.js";

/** Symbols that are no tokens are not transferred but copied, and usual vocabularies have none. */
const MOST_EXTRA_SYMBOLS = 4096;
const MOST_EXTRA_BYTES = 2 ** 20;

function decode(path: string): VocabularyAnswer {
  using source = ByteSource.open(path);
  const arrays = tokenizerArrays(readHeader(source, { decodedBytes: 0, nestedArrays: 0 }).metadata);
  if (arrays === undefined) return undefined;
  const vocabulary = resultOf(Vocabulary.read(arrays.tokens, arrays.types?.toNumbers(), arrays.scores?.toNumbers()));
  const merges = arrays.merges === undefined ? undefined : resultOf(MergeTable.read(vocabulary, arrays.merges)).tables;
  if (merges !== undefined && !isCopied(merges)) return undefined;
  return { file: source.identity, vocabulary: vocabulary.tables, merges };
}

function isCopied({ extraTexts }: MergeTables): boolean {
  const sizeBytes = extraTexts.reduce((sum, { byteLength }) => sum + byteLength, 0);
  return extraTexts.length <= MOST_EXTRA_SYMBOLS && sizeBytes <= MOST_EXTRA_BYTES;
}

function resultOf<Result>(turns: Generator<void, Result, undefined>): Result {
  for (;;) {
    const { done, value } = turns.next();
    if (done === true) return value;
  }
}

function answerTo(path: string): VocabularyAnswer {
  try {
    return decode(path);
  } catch {
    // The caller decodes the vocabulary itself and gets the same error.
    return undefined;
  }
}

/** The buffers of the large tables, which are transferred; each belongs to one table alone. */
function buffersOf({ vocabulary, merges }: { readonly vocabulary: object; readonly merges: MergeTables | undefined }) {
  return [...Object.values(vocabulary), ...Object.values(merges ?? {})]
    .filter((table): table is Uint8Array<ArrayBuffer> => ArrayBuffer.isView(table))
    .map(({ buffer }) => buffer);
}

const { path, port } = workerData as VocabularyQuestion;
const answer = answerTo(path);
port.postMessage(answer, answer === undefined ? [] : buffersOf(answer));
