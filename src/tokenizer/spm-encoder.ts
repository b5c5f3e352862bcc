// SentencePiece (GGUF's `llama` model): characters merge, the pair whose token scores highest first and leftmost
// among equals, until no neighbours make a token; what is no token then is spelled in byte tokens.
// Invariant: cutting the text where no token can reach across gives the same result, and makes words to remember.

import { byteTokenText } from "./bpe-encoder.js";
import { ESCAPED_SPACE, escapeSpaces, isEscapedSpace } from "./escaped-space.js";
import { chain, MergeQueue, NO_NEIGHBOUR } from "./merge-queue.js";
import { sequenceBytes } from "./split-text.js";
import type { TokenBuffer } from "./token-buffer.js";
import type { Vocabulary } from "./vocabulary.js";
import { WordCache } from "./word-cache.js";

const BYTES = 256;

export class SpmEncoder {
  readonly #vocabulary: Vocabulary;
  readonly #cache = new WordCache();
  readonly #byteTokens: Int32Array;
  readonly #cutsAtSpaces: boolean;

  /** `unknownToken` stands for bytes that the vocabulary cannot spell; without one they are left out. */
  constructor(vocabulary: Vocabulary, unknownToken: number | undefined) {
    this.#vocabulary = vocabulary;
    this.#cutsAtSpaces = !hasInnerSpaces(vocabulary);
    this.#byteTokens = Int32Array.from({ length: BYTES }, (_, byte) => {
      const spelled = vocabulary.findText(byteTokenText(byte));
      if (spelled >= 0) return spelled;
      const raw = vocabulary.find(Uint8Array.of(byte), 0, 1);
      return raw >= 0 ? raw : (unknownToken ?? -1);
    });
  }

  /** Appends the tokens of well-formed UTF-8, with a space in front where asked. */
  encode(bytes: Buffer, start: number, end: number, spacePrefix: boolean, output: TokenBuffer): void {
    const escaped = escapeSpaces(bytes, start, end, spacePrefix);
    for (let from = 0; from < escaped.length; ) {
      const to = this.#cutsAtSpaces ? wordEnd(escaped, from) : escaped.length;
      const word = from;
      this.#cache.encode(escaped, word, to, output, () => this.#encodeWord(escaped, word, to, output));
      from = to;
    }
  }

  #encodeWord(bytes: Buffer, start: number, end: number, output: TokenBuffer): void {
    const vocabulary = this.#vocabulary;
    // Of each symbol its start, its length (0 once merged away) and its neighbours.
    const starts = new Int32Array(end - start);
    const lengths = new Int32Array(end - start);
    let count = 0;
    for (let at = start; at < end; at += lengths[count++] as number) {
      starts[count] = at;
      lengths[count] = Math.min(sequenceBytes(bytes[at] as number), end - at);
    }
    const { previous, nexts } = chain(count);

    const queue = new MergeQueue();
    const propose = (left: number, right: number): void => {
      const from = starts[left] as number;
      const size = (lengths[left] as number) + (lengths[right] as number);
      const id = vocabulary.find(bytes, from, from + size);
      if (id >= 0) queue.push(-(vocabulary.scores[id] as number), left, size);
    };
    for (let index = 0; index + 1 < count; index++) propose(index, index + 1);
    while (queue.pop()) {
      const left = queue.left;
      const right = nexts[left] as number;
      if (right < 0 || lengths[left] === 0) continue;
      const size = (lengths[left] as number) + (lengths[right] as number);
      if (size !== queue.tag) continue;
      lengths[left] = size;
      lengths[right] = 0;
      const next = nexts[right] as number;
      nexts[left] = next;
      if ((previous[left] as number) >= 0) propose(previous[left] as number, left);
      if (next >= 0) {
        previous[next] = left;
        propose(left, next);
      }
    }
    for (let index = 0; index !== NO_NEIGHBOUR; index = nexts[index] as number) {
      const from = starts[index] as number;
      const to = from + (lengths[index] as number);
      const id = vocabulary.find(bytes, from, to);
      if (id >= 0) output.push(id);
      else this.#spellBytes(bytes, from, to, output);
    }
  }

  #spellBytes(bytes: Buffer, start: number, end: number, output: TokenBuffer): void {
    for (let index = start; index < end; index++) {
      const id = this.#byteTokens[bytes[index] as number] as number;
      if (id >= 0) output.push(id);
    }
  }
}

/** The next `▁` after something that is not one, or the end. */
function wordEnd(bytes: Buffer, start: number): number {
  let at = start;
  while (isEscapedSpace(bytes, at)) at += ESCAPED_SPACE.length;
  const end = bytes.indexOf(ESCAPED_SPACE, at);
  return end < 0 ? bytes.length : end;
}

/** Whether any token has a `▁` after another character, and so may join two words. */
function hasInnerSpaces(vocabulary: Vocabulary): boolean {
  for (let id = 0; id < vocabulary.size; id++) {
    const bytes = vocabulary.bytes(id);
    if (wordEnd(bytes, 0) < bytes.length) return true;
  }
  return false;
}
