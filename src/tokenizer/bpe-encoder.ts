// Byte-pair encoding: split into words, then in each word merge the pair of lowest rank, leftmost first, until no
// merge is left. Invariants: a word's merging costs n log n, so a megabyte without a space is no attack; what is
// neither a token nor mergeable falls back to single bytes, and to nothing where the vocabulary lacks them, as in
// llama.cpp.

import { SPELLING_OF_BYTE, spellBytes } from "./byte-level.js";
import { escapeSpaces } from "./escaped-space.js";
import { chain, MergeQueue } from "./merge-queue.js";
import { NO_SYMBOL, type MergeTable } from "./merge-table.js";
import { PreSplitter } from "./pre-split.js";
import type { PreTokenizer } from "./pre-tokenizers.js";
import { encodedBytes, sequenceBytes, SplitText } from "./split-text.js";
import type { TokenBuffer } from "./token-buffer.js";
import type { Vocabulary } from "./vocabulary.js";
import { WordCache } from "./word-cache.js";

const BYTES = 256;
const LINE_FEED = 0x0a;
/** A symbol that was merged into its left neighbour. */
const MERGED = -2;

export class BpeEncoder {
  readonly #vocabulary: Vocabulary;
  readonly #merges: MergeTable;
  readonly #preTokenizer: PreTokenizer;
  readonly #splitter: PreSplitter;
  readonly #cache = new WordCache();
  readonly #symbolOfByte: Int32Array;
  readonly #fallbackOfByte: Int32Array;

  constructor(vocabulary: Vocabulary, merges: MergeTable, preTokenizer: PreTokenizer) {
    this.#vocabulary = vocabulary;
    this.#merges = merges;
    this.#preTokenizer = preTokenizer;
    this.#splitter = new PreSplitter(preTokenizer.splits);
    this.#symbolOfByte = Int32Array.from(SPELLING_OF_BYTE, (spelling) => merges.addSymbol(spelling, 0, spelling.length));
    this.#fallbackOfByte = Int32Array.from({ length: BYTES }, (_, byte) =>
      preTokenizer.byteLevel ? vocabulary.find(Uint8Array.of(byte), 0, 1) : vocabulary.findText(byteTokenText(byte)),
    );
  }

  /** Appends the tokens of well-formed UTF-8. */
  encode(bytes: Buffer, start: number, end: number, output: TokenBuffer): void {
    if (!this.#preTokenizer.byteLevel) {
      bytes = escapeSpaces(bytes, start, end, false);
      start = 0;
      end = bytes.length;
    }
    const text = new SplitText(bytes, start, end);
    let position = 0;
    let wordStart = start;
    for (const wordEndPosition of this.#splitter.split(text)) {
      let wordEnd = wordStart;
      while (position < wordEndPosition) wordEnd += encodedBytes(text.codePoints[position++] as number);
      const from = wordStart;
      this.#cache.encode(bytes, from, wordEnd, output, () => this.#encodeWord(bytes, from, wordEnd, output));
      wordStart = wordEnd;
    }
  }

  #encodeWord(bytes: Buffer, start: number, end: number, output: TokenBuffer): void {
    const whole = this.#wholeWord(bytes, start, end);
    if (whole >= 0) {
      output.push(whole);
      return;
    }
    const symbols = new Int32Array(end - start);
    const starts = new Int32Array(end - start);
    let count = 0;
    for (let at = start; at < end; count++) {
      const size = this.#preTokenizer.byteLevel ? 1 : sequenceBytes(bytes[at] as number);
      starts[count] = at;
      symbols[count] = this.#preTokenizer.byteLevel
        ? (this.#symbolOfByte[bytes[at] as number] as number)
        : this.#merges.findSymbol(bytes, at, at + size);
      at += size;
    }
    this.#mergeSymbols(symbols.subarray(0, count));
    for (let index = 0; index < count; index++) {
      const symbol = symbols[index] as number;
      if (symbol === NO_SYMBOL) this.#fallBack(bytes, starts[index] as number, index + 1 < count ? (starts[index + 1] as number) : end, output);
      else if (symbol >= this.#vocabulary.size) {
        const text = this.#merges.extraText(symbol);
        this.#fallBack(text, 0, text.length, output);
      } else if (symbol !== MERGED) output.push(symbol);
    }
  }

  #wholeWord(bytes: Buffer, start: number, end: number): number {
    const { byteLevel, ignoresMerges, takesLineFeedsWhole } = this.#preTokenizer;
    // Each byte takes at least one byte to spell, so a longer word cannot be a token.
    if (end - start > this.#vocabulary.longestBytes) return -1;
    if (ignoresMerges) {
      const spelled = byteLevel ? spellBytes(bytes, start, end) : bytes.subarray(start, end);
      return this.#vocabulary.find(spelled, 0, spelled.length);
    }
    if (takesLineFeedsWhole && bytes[start] === LINE_FEED) return this.#vocabulary.find(bytes, start, end);
    return -1;
  }

  /** Leaves each merged symbol at its left end and `MERGED` in the rest. */
  #mergeSymbols(symbols: Int32Array): void {
    const count = symbols.length;
    const merges = this.#merges;
    const queue = new MergeQueue();
    const propose = (left: number, right: number): void => {
      const rank = merges.rank(symbols[left] as number, symbols[right] as number);
      if (rank >= 0) queue.push(rank, left, rank);
    };
    for (let index = 0; index + 1 < count; index++) propose(index, index + 1);
    const { previous, nexts } = chain(count);
    while (queue.pop()) {
      const left = queue.left;
      const right = nexts[left] as number;
      // A pair that has changed since has another rank, or none.
      if (right < 0 || merges.rank(symbols[left] as number, symbols[right] as number) !== queue.tag) continue;
      symbols[left] = merges.result(queue.tag);
      symbols[right] = MERGED;
      const next = nexts[right] as number;
      nexts[left] = next;
      if (next >= 0) {
        previous[next] = left;
        propose(left, next);
      }
      if ((previous[left] as number) >= 0) propose(previous[left] as number, left);
    }
  }

  #fallBack(bytes: Uint8Array, start: number, end: number, output: TokenBuffer): void {
    for (let index = start; index < end; index++) {
      const id = this.#fallbackOfByte[bytes[index] as number] as number;
      if (id >= 0) output.push(id);
    }
  }
}

/** `<0x0A>`: how vocabularies of plain text spell a byte. */
export function byteTokenText(byte: number): string {
  return `<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`;
}
