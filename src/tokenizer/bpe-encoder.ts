// Byte-pair encoding: splits the text into words, then in each word merges the pair of lowest rank, leftmost first,
// until no merge is left. Invariants: no merge produces a control token; text that is neither a token nor mergeable
// falls back to single bytes, and is dropped if the vocabulary lacks them, as in llama.cpp.

import { SPELLING_OF_BYTE, spellBytes } from "./byte-level.js";
import { characterClasses } from "./character-class.js";
import { escapeSpaces } from "./escaped-space.js";
import { NO_SYMBOL, type MergeTable } from "./merge-table.js";
import { KEPT_SYMBOLS, NeighbourMerger, NEVER, ROW_END } from "./neighbour-merger.js";
import { PreSplitter } from "./pre-split.js";
import type { PreTokenizer } from "./pre-tokenizers.js";
import { encodedBytes, sequenceBytes, SplitText } from "./split-text.js";
import type { TokenBuffer } from "./token-buffer.js";
import { TokenAttribute, type Vocabulary } from "./vocabulary.js";
import { WordCache } from "./word-cache.js";

const BYTES = 256;
const LINE_FEED = 0x0a;

/** Encodes text by ranked merges. */
export class BpeEncoder {
  readonly #vocabulary: Vocabulary;
  readonly #merges: MergeTable;
  readonly #preTokenizer: PreTokenizer;
  readonly #splitter: PreSplitter;
  readonly #cache = new WordCache();
  readonly #symbolOfByte: Int32Array;
  readonly #fallbackOfByte: Int32Array;
  readonly #merger: NeighbourMerger;
  /** The current word: each symbol, and where in the text it starts. */
  #symbols = new Int32Array(KEPT_SYMBOLS);
  #starts = new Int32Array(KEPT_SYMBOLS);

  constructor(vocabulary: Vocabulary, merges: MergeTable, preTokenizer: PreTokenizer) {
    // Every text needs them. Expanded at the first one, they would delay the first token of a model.
    characterClasses();
    this.#vocabulary = vocabulary;
    this.#merges = merges;
    this.#preTokenizer = preTokenizer;
    this.#splitter = new PreSplitter(preTokenizer.splits);
    this.#merger = new NeighbourMerger({
      priorityOf: (left, right) => {
        const rank = merges.rank(this.#symbols[left] as number, this.#symbols[right] as number);
        return rank < 0 || this.#isGuarded(merges.result(rank)) ? NEVER : rank;
      },
      join: (left, _, rank) => {
        this.#symbols[left] = merges.result(rank);
      },
    });
    this.#symbolOfByte = Int32Array.from(SPELLING_OF_BYTE, (spelling) =>
      merges.addSymbol(spelling, 0, spelling.length),
    );
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
    if (whole >= 0 && !this.#isGuarded(whole)) {
      output.push(whole);
      return;
    }
    const { byteLevel } = this.#preTokenizer;
    if (end - start > this.#symbols.length) this.#reserve(end - start);
    let count = 0;
    for (let at = start; at < end; count++) {
      const size = byteLevel ? 1 : sequenceBytes(bytes[at] as number);
      this.#starts[count] = at;
      this.#symbols[count] = byteLevel
        ? (this.#symbolOfByte[bytes[at] as number] as number)
        : this.#merges.findSymbol(bytes, at, at + size);
      at += size;
    }
    const nexts = this.#merger.merge(count);
    for (let place = 0; place !== ROW_END; place = nexts[place] as number) {
      const symbol = this.#symbols[place] as number;
      if (symbol >= this.#vocabulary.size) {
        const text = this.#merges.extraText(symbol);
        this.#fallBack(text, 0, text.length, output);
      } else if (symbol === NO_SYMBOL) {
        const from = this.#starts[place] as number;
        this.#fallBack(bytes, from, from + sequenceBytes(bytes[from] as number), output);
      } else output.push(symbol);
    }
    if (this.#symbols.length > KEPT_SYMBOLS) this.#reserve(KEPT_SYMBOLS);
  }

  #isGuarded(symbol: number): boolean {
    return symbol < this.#vocabulary.size && this.#vocabulary.has(symbol, TokenAttribute.guarded);
  }

  #reserve(count: number): void {
    this.#symbols = new Int32Array(count);
    this.#starts = new Int32Array(count);
  }

  #wholeWord(bytes: Buffer, start: number, end: number): number {
    const { byteLevel, ignoresMerges, takesLineFeedsWhole } = this.#preTokenizer;
    // Each byte is spelled with at least one byte, so a longer word cannot be a token.
    if (end - start > this.#vocabulary.longestBytes) return -1;
    if (ignoresMerges) {
      const spelled = byteLevel ? spellBytes(bytes, start, end) : bytes.subarray(start, end);
      return this.#vocabulary.find(spelled, 0, spelled.length);
    }
    if (takesLineFeedsWhole && bytes[start] === LINE_FEED) return this.#vocabulary.find(bytes, start, end);
    return -1;
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
