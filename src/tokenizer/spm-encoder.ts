// SentencePiece (GGUF's `llama` model): starts from characters and merges the pair whose token has the highest score,
// leftmost among equals, until no neighbours form a token; text that is still no token is spelled in byte tokens. No
// text merges into a control token. Invariant: cutting the text where no token can span the cut gives the same result,
// and yields words that can be cached.

import { byteTokenText } from "./bpe-encoder.js";
import { ESCAPED_SPACE, escapeSpaces, isEscapedSpace } from "./escaped-space.js";
import { KEPT_SYMBOLS, NeighbourMerger, NEVER, ROW_END } from "./neighbour-merger.js";
import { sequenceBytes } from "./split-text.js";
import type { TokenBuffer } from "./token-buffer.js";
import { TokenAttribute, type Vocabulary } from "./vocabulary.js";
import { WordCache } from "./word-cache.js";

const BYTES = 256;
const NOTHING = Buffer.alloc(0);

/** Encodes text by token scores, as SentencePiece does. */
export class SpmEncoder {
  readonly #vocabulary: Vocabulary;
  readonly #cache = new WordCache();
  readonly #byteTokens: Int32Array;
  readonly #cutsAtSpaces: boolean;
  readonly #merger: NeighbourMerger;
  /** The current word: its text, and each symbol's start and length in it. */
  #bytes: Buffer = NOTHING;
  #starts = new Int32Array(KEPT_SYMBOLS);
  #lengths = new Int32Array(KEPT_SYMBOLS);

  /** `unknownToken` replaces bytes that the vocabulary cannot spell; without one they are dropped. */
  constructor(vocabulary: Vocabulary, unknownToken: number | undefined) {
    this.#vocabulary = vocabulary;
    this.#cutsAtSpaces = !hasInnerSpaces(vocabulary);
    this.#merger = new NeighbourMerger({
      priorityOf: (left, right) => {
        const start = this.#starts[left] as number;
        const end = (this.#starts[right] as number) + (this.#lengths[right] as number);
        const id = vocabulary.find(this.#bytes, start, end);
        return id < 0 || vocabulary.has(id, TokenAttribute.guarded) ? NEVER : -(vocabulary.scores[id] as number);
      },
      join: (left, right) => {
        this.#lengths[left] = (this.#lengths[left] as number) + (this.#lengths[right] as number);
      },
    });
    this.#byteTokens = Int32Array.from({ length: BYTES }, (_, byte) => {
      const spelled = vocabulary.findText(byteTokenText(byte));
      if (spelled >= 0) return spelled;
      const raw = vocabulary.find(Uint8Array.of(byte), 0, 1);
      return raw >= 0 ? raw : (unknownToken ?? -1);
    });
  }

  /** Appends the tokens of well-formed UTF-8, with a space in front if `spacePrefix` is set. */
  encode(bytes: Buffer, start: number, end: number, spacePrefix: boolean, output: TokenBuffer): void {
    const escaped = escapeSpaces(bytes, start, end, spacePrefix);
    for (let from = 0; from < escaped.length;) {
      const to = this.#cutsAtSpaces ? wordEnd(escaped, from) : escaped.length;
      const word = from;
      this.#cache.encode(escaped, word, to, output, () => this.#encodeWord(escaped, word, to, output));
      from = to;
    }
  }

  #encodeWord(bytes: Buffer, start: number, end: number, output: TokenBuffer): void {
    if (end - start > this.#starts.length) this.#reserve(end - start);
    this.#bytes = bytes;
    let count = 0;
    for (let at = start; at < end; at += this.#lengths[count++] as number) {
      this.#starts[count] = at;
      this.#lengths[count] = sequenceBytes(bytes[at] as number);
    }
    const nexts = this.#merger.merge(count);
    for (let place = 0; place !== ROW_END; place = nexts[place] as number) {
      const from = this.#starts[place] as number;
      const to = from + (this.#lengths[place] as number);
      const id = this.#vocabulary.find(bytes, from, to);
      if (id >= 0 && !this.#vocabulary.has(id, TokenAttribute.guarded)) output.push(id);
      else this.#spellBytes(bytes, from, to, output);
    }
    this.#bytes = NOTHING;
    if (this.#starts.length > KEPT_SYMBOLS) this.#reserve(KEPT_SYMBOLS);
  }

  #reserve(count: number): void {
    this.#starts = new Int32Array(count);
    this.#lengths = new Int32Array(count);
  }

  #spellBytes(bytes: Buffer, start: number, end: number, output: TokenBuffer): void {
    for (let index = start; index < end; index++) {
      const id = this.#byteTokens[bytes[index] as number] as number;
      if (id >= 0) output.push(id);
    }
  }
}

/** The next `▁` that follows another character, or the end. */
function wordEnd(bytes: Buffer, start: number): number {
  let at = start;
  while (isEscapedSpace(bytes, at)) at += ESCAPED_SPACE.length;
  const end = bytes.indexOf(ESCAPED_SPACE, at);
  return end < 0 ? bytes.length : end;
}

/** Whether any token has a `▁` after another character, and so may span two words. */
function hasInnerSpaces(vocabulary: Vocabulary): boolean {
  for (let id = 0; id < vocabulary.size; id++) {
    const bytes = vocabulary.bytes(id);
    if (wordEnd(bytes, 0) < bytes.length) return true;
  }
  return false;
}
