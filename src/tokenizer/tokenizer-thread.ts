// The worker thread that encodes and decodes long texts. It caches the tokenizers of a few models, built from their
// files' headers, and asks for the header of a model it does not know; its priority is below that of the threads that
// compute.

import { readlinkSync } from "node:fs";
import { setPriority } from "node:os";
import { metadataOf } from "../gguf/header-bytes.js";
import { LruCache } from "../lru.js";
import { answerCalls } from "../worker/answer-calls.js";
import { Transferred } from "../worker/call-message.js";
import { answerTokenizerCall } from "./tokenizer-call.js";
import type { TokenizerAnswer, TokenizerQuestion } from "./tokenizer-message.js";
import { createTokenizer, type Tokenizer } from "./tokenizer.js";

/** How many tokenizers are cached; a large vocabulary takes some ten megabytes. */
const MAX_TOKENIZERS = 4;
/** The niceness that gives a thread a tenth of a normal thread's share of a busy processor. */
const BACKGROUND_NICENESS = 10;

const tokenizers = new LruCache<number, Tokenizer>({ maxEntries: MAX_TOKENIZERS });

function tokenizerOf({ model, header }: TokenizerQuestion): Tokenizer | undefined {
  const known = tokenizers.get(model);
  if (known !== undefined || header === undefined) return known;
  const tokenizer = createTokenizer(metadataOf(header));
  tokenizers.set(model, tokenizer);
  return tokenizer;
}

lowerThreadPriority();
answerCalls((question: TokenizerQuestion): TokenizerAnswer | Transferred<TokenizerAnswer> => {
  const tokenizer = tokenizerOf(question);
  if (tokenizer === undefined) return { kind: "unknown-model" };
  const result = answerTokenizerCall(tokenizer, question.call);
  return new Transferred({ kind: "result", result }, buffersOf(result));
});

/** The buffers that belong to one view alone: small views share a pool, which cannot be transferred. */
function buffersOf(result: object): ArrayBuffer[] {
  const views = Object.values(result).filter((value): value is Uint8Array | Int32Array => ArrayBuffer.isView(value));
  const owned = views.filter(
    ({ buffer, byteLength }) => buffer instanceof ArrayBuffer && buffer.byteLength === byteLength && byteLength > 0,
  );
  return owned.map(({ buffer }) => buffer as ArrayBuffer);
}

/**
 * Lowers the calling thread's priority below that of the threads that compute. Only Linux can do that for one thread;
 * elsewhere nothing happens.
 */
function lowerThreadPriority(): void {
  try {
    const [, thread] = /\/task\/(\d+)$/.exec(readlinkSync("/proc/thread-self")) ?? [];
    if (thread !== undefined) setPriority(Number(thread), BACKGROUND_NICENESS);
  } catch {
    // Failing to lower the priority is harmless.
  }
}
