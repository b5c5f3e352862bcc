// One text and where it stands in its grammar: tokens in, the mask of the next one out. After the token that ends it only
// such tokens are allowed.

import { MARK_CHARACTER, markOf } from "./json-rules.js";
import type { GrammarLibrary, GrammarMatcher } from "./library.js";
import type { PackedVocabulary } from "./packed-vocabulary.js";
import type { StringLengths } from "./string-lengths.js";

export class FollowedText {
  readonly #library: GrammarLibrary;
  readonly #matcher: GrammarMatcher;
  readonly #vocabulary: PackedVocabulary;
  readonly #lengths: StringLengths | undefined;
  #position = 0;
  #ended = false;

  constructor(library: GrammarLibrary, matcher: GrammarMatcher, vocabulary: PackedVocabulary, lengths: StringLengths | undefined) {
    this.#library = library;
    this.#matcher = matcher;
    this.#vocabulary = vocabulary;
    this.#lengths = lengths;
  }

  /** Tokens so far. */
  get position(): number {
    return this.#position;
  }

  /** False where the grammar does not allow it. */
  async accept(token: number): Promise<boolean> {
    this.#position++;
    if (this.#ended) return this.#vocabulary.endTokens.includes(token);
    return this.#library.use(() => {
      if (!this.#matcher.acceptToken(token)) return false;
      this.#ended = this.#matcher.isTerminated();
      const quoted = this.#ended ? undefined : this.#lengths?.accept(token);
      if (quoted !== undefined) this.#standAt(quoted, token);
      return true;
    });
  }

  /** False where it allows nothing. */
  async writeMask(mask: Uint32Array): Promise<boolean> {
    if (this.#ended) {
      mask.fill(0);
      for (const token of this.#vocabulary.endTokens) mask[token >>> 5] |= 1 << (token & 31);
      return true;
    }
    mask.set(await this.#library.use(() => this.#matcher.getNextTokenBitmask()));
    const rest = this.#vocabulary.size & 31;
    // Behind the last token the library sets what it likes.
    if (rest !== 0) mask[mask.length - 1] &= 2 ** rest - 1;
    this.#lengths?.apply(mask);
    return mask.some((word) => word !== 0);
  }

  dispose(): void {
    if (!this.#library.failed) this.#matcher.dispose();
  }

  /** Goes back to behind the last quote, and there asks for the limits of the string that it may begin. */
  #standAt(quoted: Uint8Array, token: number): void {
    const matcher = this.#matcher;
    // The library takes bytes where it says text.
    const accepts = (text: string | Uint8Array): boolean => matcher["_acceptString"](text as string);
    matcher.rollBack(1);
    accepts(quoted);
    const holds = (mark: string): boolean => {
      const held = accepts(mark);
      if (held) matcher.rollBack(1);
      return held;
    };
    // Most quotes begin nothing that has limits.
    const some = holds(MARK_CHARACTER);
    this.#lengths?.stand((limit) => some && holds(markOf(limit)));
    matcher.rollBack(1);
    matcher.acceptToken(token);
  }
}
