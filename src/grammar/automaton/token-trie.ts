// A vocabulary as a trie of bytes, with its nodes in the order of a walk: masks are made by walking it together with an
// automaton. The kinds of characters in each subtree are known, so that a subtree whose characters all lead an
// automaton back to the same set is taken as a whole.

import type { PackedVocabulary } from "./packed-vocabulary.js";
import { MaskCache } from "./mask-cache.js";
import { TokenCovers } from "./token-cover.js";
import { type TrieTexts, tokenTexts } from "./token-texts.js";

/** A vocabulary as a trie. */
export class TokenTrie {
  readonly vocabulary: PackedVocabulary;
  /** The masks made so far. */
  readonly masks: MaskCache;
  /** Tokens that consist of some kinds of characters only. */
  readonly covers: TokenCovers;
  /** Tokens sorted by their bytes; those of a subtree are adjacent. */
  readonly tokens: Uint32Array;
  /** For each node its byte, its depth (1 for a first byte), and the node after its subtree. */
  readonly bytes: Uint8Array;
  readonly depths: Uint32Array;
  readonly ends: Uint32Array;
  /**
   * For each node its first token, and the first one that is longer than the node's text. The subtree's tokens end at
   * `tokenStarts` of `ends`.
   */
  readonly tokenStarts: Uint32Array;
  readonly ownEnds: Uint32Array;
  /** The characters of the texts of all nodes. */
  readonly texts: TrieTexts;

  private constructor(vocabulary: PackedVocabulary, tokens: Uint32Array, nodes: NodeList) {
    this.vocabulary = vocabulary;
    this.tokens = tokens;
    this.bytes = Uint8Array.from(nodes.bytes);
    this.depths = Uint32Array.from(nodes.depths);
    const count = nodes.bytes.length;
    this.tokenStarts = new Uint32Array(count + 1);
    this.tokenStarts.set(nodes.tokenStarts);
    this.tokenStarts[count] = tokens.length;
    this.ownEnds = Uint32Array.from(nodes.ownEnds);
    this.ends = subtreeEnds(this.depths);
    this.texts = tokenTexts(this);
    this.masks = new MaskCache(Math.ceil(vocabulary.size / 32));
    this.covers = new TokenCovers(this);
  }

  static of(vocabulary: PackedVocabulary): TokenTrie {
    const { size, offsets, bytes } = vocabulary;
    const all = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const texts: { readonly text: string; readonly token: number }[] = [];
    for (let token = 0; token < size; token++) {
      const [from, to] = [offsets[token] as number, offsets[token + 1] as number];
      // Latin-1 has one character for each byte, so comparing strings compares bytes.
      if (to > from) texts.push({ text: all.toString("latin1", from, to), token });
    }
    texts.sort((a, b) => (a.text < b.text ? -1 : a.text > b.text ? 1 : a.token - b.token));
    const nodes: NodeList = { bytes: [], depths: [], tokenStarts: [], ownEnds: [] };
    let before = "";
    for (const [place, { text }] of texts.entries()) {
      let shared = 0;
      while (shared < before.length && shared < text.length && before.charCodeAt(shared) === text.charCodeAt(shared))
        shared++;
      for (let depth = shared; depth < text.length; depth++) {
        nodes.bytes.push(text.charCodeAt(depth));
        nodes.depths.push(depth + 1);
        nodes.tokenStarts.push(place);
        nodes.ownEnds.push(place);
      }
      if (text.length > 0) nodes.ownEnds[nodes.ownEnds.length - 1] = place + 1;
      before = text;
    }
    return new TokenTrie(
      vocabulary,
      Uint32Array.from(texts, ({ token }) => token),
      nodes,
    );
  }

  get nodeCount(): number {
    return this.bytes.length;
  }

  /** Allows the tokens that end at a node, in a mask; false if there is none. */
  allowOwn(mask: Uint32Array, node: number): boolean {
    return this.#allow(mask, this.tokenStarts[node] as number, this.ownEnds[node] as number);
  }

  /** Allows all tokens of a node's subtree, in a mask; false if there is none. */
  allowSubtree(mask: Uint32Array, node: number): boolean {
    return this.#allow(mask, this.tokenStarts[node] as number, this.tokenStarts[this.ends[node] as number] as number);
  }

  #allow(mask: Uint32Array, from: number, to: number): boolean {
    const { tokens } = this;
    for (let place = from; place < to; place++) {
      const token = tokens[place] as number;
      mask[token >>> 5] |= 1 << (token & 31);
    }
    return to > from;
  }
}

interface NodeList {
  readonly bytes: number[];
  readonly depths: number[];
  readonly tokenStarts: number[];
  readonly ownEnds: number[];
}

function subtreeEnds(depths: Uint32Array): Uint32Array {
  const ends = new Uint32Array(depths.length);
  const open: number[] = [];
  for (let node = 0; node <= depths.length; node++) {
    const depth = depths[node] ?? 0;
    while (open.length > 0 && (depths[open.at(-1) as number] as number) >= depth) ends[open.pop() as number] = node;
    open.push(node);
  }
  return ends;
}
