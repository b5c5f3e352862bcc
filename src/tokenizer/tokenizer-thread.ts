// The thread that encodes and decodes long texts. It knows the tokenizers of a few models, made of their files' headers,
// and is told those it does not know; it has a lower priority than the threads that compute.

import { metadataOf } from "../gguf/header-bytes.js";
import { LruCache } from "../lru.js";
import { answerCalls } from "../worker/answer-calls.js";
import { Transferred } from "../worker/call-message.js";
import { yieldToOthers } from "../worker/priority.js";
import { answerTokenizerCall } from "./tokenizer-call.js";
import type { TokenizerAnswer, TokenizerQuestion } from "./tokenizer-message.js";
import { createTokenizer, type Tokenizer } from "./tokenizer.js";

/** A large vocabulary takes some ten megabytes. */
const MAX_TOKENIZERS = 4;

const tokenizers = new LruCache<number, Tokenizer>({ maxEntries: MAX_TOKENIZERS });

function tokenizerOf({ model, header }: TokenizerQuestion): Tokenizer | undefined {
  const known = tokenizers.get(model);
  if (known !== undefined || header === undefined) return known;
  const tokenizer = createTokenizer(metadataOf(header));
  tokenizers.set(model, tokenizer);
  return tokenizer;
}

yieldToOthers();
answerCalls((question: TokenizerQuestion): TokenizerAnswer | Transferred<TokenizerAnswer> => {
  const tokenizer = tokenizerOf(question);
  if (tokenizer === undefined) return { kind: "unknown-model" };
  const result = answerTokenizerCall(tokenizer, question.call);
  return new Transferred({ kind: "result", result }, buffersOf(result));
});

/** The buffers that hold one view alone: small views share a pool, which cannot be transferred. */
function buffersOf(result: object): ArrayBuffer[] {
  const views = Object.values(result).filter((value): value is Uint8Array | Int32Array => ArrayBuffer.isView(value));
  const owned = views.filter(
    ({ buffer, byteLength }) => buffer instanceof ArrayBuffer && buffer.byteLength === byteLength && byteLength > 0,
  );
  return owned.map(({ buffer }) => buffer as ArrayBuffer);
}
