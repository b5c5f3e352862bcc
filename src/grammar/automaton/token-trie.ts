// A vocabulary as a trie of bytes, with its nodes in the order of a walk: masks are made by walking it together with an
// automaton. The kinds of characters in each subtree are known, so that a subtree whose characters all lead an
// automaton back to the same set is taken as a whole.

import type { PackedVocabulary } from "./packed-vocabulary.js";
import type { EarleySet } from "./earley-set.js";
import { LruCache } from "../../lru.js";
import { ASCII_KINDS, BROKEN, MULTIBYTE, Utf8State } from "./character-kinds.js";
import { type TokenCover, TokenCovers } from "./token-cover.js";

/** A mask that was computed before. */
export interface KnownMask {
  readonly mask: Uint32Array;
  /** Whether any token may follow. */
  readonly some: boolean;
}

/** One of a vocabulary of 128,000 tokens is 16 KB. */
const MAX_MASKS = 1024;

/** A vocabulary as a trie. */
export class TokenTrie {
  readonly vocabulary: PackedVocabulary;
  /** The masks made so far, by the set that they belong to. */
  readonly masks = new LruCache<EarleySet, KnownMask>({ maxEntries: MAX_MASKS });
  readonly #covers: TokenCovers = new TokenCovers(this);
  /** Tokens sorted by their bytes; those of a subtree are adjacent. */
  readonly tokens: Uint32Array;
  /** For each node its byte, its depth (1 for a first byte), and the node after its subtree. */
  readonly bytes: Uint8Array;
  readonly depths: Uint16Array;
  readonly ends: Uint32Array;
  /**
   * For each node its first token, and the first one that is longer than the node's text. The subtree's tokens end at
   * `tokenStarts` of `ends`.
   */
  readonly tokenStarts: Uint32Array;
  readonly ownEnds: Uint32Array;
  /**
   * The kinds of characters below a node between two characters; includes `BROKEN` if some are incomplete or the node
   * is inside a character.
   */
  readonly kinds: Int32Array;
  /** The most characters below a node. */
  readonly lengths: Uint16Array;

  private constructor(vocabulary: PackedVocabulary, tokens: Uint32Array, nodes: NodeList) {
    this.vocabulary = vocabulary;
    this.tokens = tokens;
    this.bytes = Uint8Array.from(nodes.bytes);
    this.depths = Uint16Array.from(nodes.depths);
    const count = nodes.bytes.length;
    this.tokenStarts = new Uint32Array(count + 1);
    this.tokenStarts.set(nodes.tokenStarts);
    this.tokenStarts[count] = tokens.length;
    this.ownEnds = Uint32Array.from(nodes.ownEnds);
    this.ends = subtreeEnds(this.depths);
    const { kinds, lengths } = subtreeKinds(this);
    this.kinds = kinds;
    this.lengths = lengths;
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

  /** The tokens that consist of some kinds of characters only, up to `length` of them; see token-cover.ts. */
  cover(kinds: number, length: number): TokenCover {
    return this.#covers.of(kinds, length);
  }
}

interface NodeList {
  readonly bytes: number[];
  readonly depths: number[];
  readonly tokenStarts: number[];
  readonly ownEnds: number[];
}

function subtreeEnds(depths: Uint16Array): Uint32Array {
  const ends = new Uint32Array(depths.length);
  const open: number[] = [];
  for (let node = 0; node <= depths.length; node++) {
    const depth = depths[node] ?? 0;
    while (open.length > 0 && (depths[open.at(-1) as number] as number) >= depth) ends[open.pop() as number] = node;
    open.push(node);
  }
  return ends;
}

/** From the last node to the first, so that children come before their parent. */
function subtreeKinds({
  bytes,
  depths,
  tokenStarts,
  ownEnds,
}: Pick<TokenTrie, "bytes" | "depths" | "tokenStarts" | "ownEnds">): {
  readonly kinds: Int32Array;
  readonly lengths: Uint16Array;
} {
  const count = bytes.length;
  /** The nearest ancestor between two characters; -1 for the root, -2 if there is none. */
  const above = new Int32Array(count);
  const between = new Uint8Array(count);
  const path: { readonly state: Utf8State; readonly boundary: number }[] = [{ state: Utf8State.start, boundary: -1 }];
  for (let node = 0; node < count; node++) {
    const depth = depths[node] as number;
    const parent = path[depth - 1] as (typeof path)[number];
    const state = parent.state.step(bytes[node] as number);
    above[node] = parent.boundary;
    between[node] = state === Utf8State.start ? 1 : 0;
    path[depth] = {
      state,
      boundary: state === Utf8State.start ? node : state === Utf8State.broken ? -2 : parent.boundary,
    };
    if (state === Utf8State.broken) between[node] = 2;
  }
  const kinds = new Int32Array(count);
  const lengths = new Uint16Array(count);
  for (let node = count - 1; node >= 0; node--) {
    const boundary = above[node] as number;
    const ends = (ownEnds[node] as number) > (tokenStarts[node] as number);
    if (between[node] !== 1) kinds[node] = BROKEN;
    if (boundary < 0) continue;
    if (between[node] === 1) {
      const first = (bytes[node] as number) < 0x80;
      kinds[boundary] =
        (kinds[boundary] as number) |
        (first ? (ASCII_KINDS[bytes[node] as number] as number) : MULTIBYTE) |
        (kinds[node] as number);
      lengths[boundary] = Math.max(lengths[boundary] as number, 1 + (lengths[node] as number));
    } else if (between[node] === 2 || ends) {
      kinds[boundary] = (kinds[boundary] as number) | BROKEN;
    }
  }
  return { kinds, lengths };
}
