// Masks of the tokens that consist of some kinds of characters only, computed once: inside a string nearly all tokens
// may follow, and only the others have to be checked.

import { ASCII_KINDS, BROKEN, MULTIBYTE, Utf8State } from "./character-kinds.js";
import type { TokenTrie } from "./token-trie.js";

export interface TokenCover {
  /** The mask of the tokens that consist of these kinds only. */
  readonly mask: Uint32Array;
  /** The nodes of the trie that lead to other tokens, in order. */
  readonly nodes: Uint32Array;
}

/** Lengths in characters that covers are computed for; longer tokens are checked. */
const LENGTHS = [8, 16, 32, 64, Infinity] as const;
/** Strings, names and wide character classes have one cover each. */
const MAX_COVERS = 24;

export class TokenCovers {
  readonly #trie: TokenTrie;
  readonly #covers = new Map<string, TokenCover>();
  #kinds: Int32Array | undefined;
  #lengths: Uint16Array | undefined;
  #nodeKinds: Int32Array | undefined;
  #nodeLengths: Uint16Array | undefined;
  #allTokens: Uint32Array | undefined;
  /** Space for the nodes of the cover that is being made. */
  #nodes: Uint32Array | undefined;

  constructor(trie: TokenTrie) {
    this.#trie = trie;
  }

  of(kinds: number, length: number): TokenCover {
    const most = LENGTHS.findLast((limit) => limit <= length) ?? 0;
    const key = `${kinds} ${most}`;
    let cover = this.#covers.get(key);
    if (cover === undefined) cover = this.#make(kinds, most);
    this.#covers.delete(key);
    this.#covers.set(key, cover);
    const [oldest] = this.#covers.keys();
    if (this.#covers.size > MAX_COVERS && oldest !== undefined) this.#covers.delete(oldest);
    return cover;
  }

  #make(kinds: number, length: number): TokenCover {
    this.#measure();
    const { tokens, nodeCount, ends, tokenStarts, ownEnds } = this.#trie;
    const [tokenKinds, tokenLengths, nodeKinds, nodeLengths] = [
      this.#kinds as Int32Array,
      this.#lengths as Uint16Array,
      this.#nodeKinds as Int32Array,
      this.#nodeLengths as Uint16Array,
    ];
    // Most tokens are covered: they start as allowed, and subtrees that are covered whole are skipped.
    const mask = (this.#allTokens as Uint32Array).slice();
    const nodes = (this.#nodes ??= new Uint32Array(nodeCount));
    let count = 0;
    for (let node = 0; node < nodeCount;) {
      if (((nodeKinds[node] as number) & ~kinds) === 0 && (nodeLengths[node] as number) <= length) {
        node = ends[node] as number;
        continue;
      }
      nodes[count++] = node;
      for (let place = tokenStarts[node] as number; place < (ownEnds[node] as number); place++) {
        if (((tokenKinds[place] as number) & ~kinds) === 0 && (tokenLengths[place] as number) <= length) continue;
        const token = tokens[place] as number;
        mask[token >>> 5] &= ~(1 << (token & 31));
      }
      node++;
    }
    return { mask, nodes: nodes.slice(0, count) };
  }

  /** Computes the kinds and lengths of all tokens, and of all texts below a node. */
  #measure(): void {
    if (this.#kinds !== undefined) return;
    const { tokens, vocabulary, nodeCount, tokenStarts, ownEnds, ends } = this.#trie;
    const kinds = new Int32Array(tokens.length);
    const lengths = new Uint16Array(tokens.length);
    const all = new Uint32Array(Math.ceil(vocabulary.size / 32));
    for (let place = 0; place < tokens.length; place++) {
      const token = tokens[place] as number;
      all[token >>> 5] |= 1 << (token & 31);
      let state = Utf8State.start;
      for (let at = vocabulary.offsets[token] as number; at < (vocabulary.offsets[token + 1] as number); at++) {
        const byte = vocabulary.bytes[at] as number;
        state = state.step(byte);
        if (state !== Utf8State.start) continue;
        kinds[place] = (kinds[place] as number) | (byte < 0x80 ? (ASCII_KINDS[byte] as number) : MULTIBYTE);
        lengths[place]++;
      }
      if (state !== Utf8State.start) kinds[place] = (kinds[place] as number) | BROKEN;
    }
    const nodeKinds = new Int32Array(nodeCount);
    const nodeLengths = new Uint16Array(nodeCount);
    for (let node = nodeCount - 1; node >= 0; node--) {
      let [kind, length] = [0, 0];
      for (let place = tokenStarts[node] as number; place < (ownEnds[node] as number); place++) {
        kind |= kinds[place] as number;
        length = Math.max(length, lengths[place] as number);
      }
      for (let child = node + 1; child < (ends[node] as number); child = ends[child] as number) {
        kind |= nodeKinds[child] as number;
        length = Math.max(length, nodeLengths[child] as number);
      }
      nodeKinds[node] = kind;
      nodeLengths[node] = length;
    }
    this.#kinds = kinds;
    this.#lengths = lengths;
    this.#nodeKinds = nodeKinds;
    this.#nodeLengths = nodeLengths;
    this.#allTokens = all;
  }
}
