// Masks of the tokens that consist of some kinds of characters only, computed once: inside a string nearly all tokens
// may follow, and only the others have to be checked.

import { LruCache } from "../../lru.js";
import { ASCII_KINDS, MULTIBYTE } from "./character-kinds.js";
import type { TokenTrie } from "./token-trie.js";

/** The tokens that consist of some kinds of characters only, and where the others are in the trie. */
export interface TokenCover {
  /** The mask of the tokens that consist of these kinds only. */
  readonly mask: Uint32Array;
  /**
   * The nodes of the trie that lead to other tokens, in order. If a node is the first of its path that ends with a
   * character of another kind, it stands for its whole subtree, and its bits are inverted.
   */
  readonly nodes: Int32Array;
}

/** Lengths in characters that covers are computed for; longer tokens are checked. */
const LENGTHS = [8, 16, 32, 64, Infinity] as const;
/** The greatest length for which there is a mask of the tokens up to it; few tokens are longer. */
export const MAX_SHORT = 128;
/** Strings, names and wide character classes have one cover each. */
const MAX_COVERS = 32;

/** The covers of a trie that were used most recently. */
export class TokenCovers {
  readonly #trie: TokenTrie;
  readonly #covers = new LruCache<string, TokenCover>({ maxEntries: MAX_COVERS });
  /** The masks of the tokens with up to as many characters as the index. */
  #shortTokens: readonly Uint32Array[] | undefined;

  constructor(trie: TokenTrie) {
    this.#trie = trie;
  }

  /** The cover of some kinds of characters, by tokens of up to `length` or somewhat fewer characters. */
  of(kinds: number, length: number): TokenCover {
    const most = length >= this.#trie.texts.longest ? Infinity : (LENGTHS.findLast((limit) => limit <= length) ?? 0);
    const key = `${kinds} ${most}`;
    let cover = this.#covers.get(key);
    if (cover === undefined) this.#covers.set(key, (cover = this.#make(kinds, most)));
    return cover;
  }

  /** The mask of the tokens with up to `length` characters, at most `MAX_SHORT`, whatever their kinds are. */
  shortTokens(length: number): Uint32Array {
    this.#shortTokens ??= this.#shortMasks();
    return this.#shortTokens[Math.min(length, this.#shortTokens.length - 1)] as Uint32Array;
  }

  #shortMasks(): readonly Uint32Array[] {
    const { nodeCount, texts } = this.#trie;
    const masks = Array.from({ length: Math.min(texts.longest, MAX_SHORT) + 1 }, () => this.#emptyMask());
    for (let node = 0; node < nodeCount; node++) {
      const mask = masks[texts.own.lengths[node] as number];
      if (mask !== undefined) this.#trie.allowOwn(mask, node);
    }
    let shorter: Uint32Array | undefined;
    for (const mask of masks) {
      if (shorter !== undefined) for (let word = 0; word < mask.length; word++) mask[word] |= shorter[word] as number;
      shorter = mask;
    }
    return masks;
  }

  #make(kinds: number, length: number): TokenCover {
    const { nodeCount, bytes, ends, texts } = this.#trie;
    const { own, subtree } = texts;
    const mask = this.#emptyMask();
    const nodes: number[] = [];
    for (let node = 0; node < nodeCount;) {
      const end = ends[node] as number;
      if (((subtree.kinds[node] as number) & ~kinds) === 0 && (subtree.lengths[node] as number) <= length) {
        this.#trie.allowSubtree(mask, node);
        node = end;
      } else if (isOther(bytes[node] as number, kinds)) {
        nodes.push(~node);
        node = end;
      } else {
        nodes.push(node);
        if (((own.kinds[node] as number) & ~kinds) === 0 && (own.lengths[node] as number) <= length)
          this.#trie.allowOwn(mask, node);
        node++;
      }
    }
    return { mask, nodes: Int32Array.from(nodes) };
  }

  #emptyMask(): Uint32Array {
    return new Uint32Array(Math.ceil(this.#trie.vocabulary.size / 32));
  }
}

/** Whether a byte is part of a character of another kind. */
function isOther(byte: number, kinds: number): boolean {
  return ((byte < 0x80 ? (ASCII_KINDS[byte] as number) : MULTIBYTE) & ~kinds) !== 0;
}
