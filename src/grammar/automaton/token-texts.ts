// The kinds and the number of characters in the texts of a trie: of each node's own text, of all tokens in a subtree, and
// of what follows a node in its subtree.

import { ASCII_KINDS, BROKEN, MULTIBYTE, Utf8State } from "./character-kinds.js";
import type { TokenTrie } from "./token-trie.js";

/** Texts, one for each node of a trie, or several, of which the kinds of all and the greatest length count. */
interface Texts {
  /** Kinds of characters; includes `BROKEN` if some bytes are no complete character. */
  readonly kinds: Int32Array;
  /** Number of complete characters. */
  readonly lengths: Uint32Array;
}

/** The characters of the texts in a trie, by node. */
export interface TrieTexts {
  /** The text that leads from the root to the node. */
  readonly own: Texts;
  /** All tokens in the node's subtree, from their first byte on. */
  readonly subtree: Texts;
  /** What follows the node in its subtree; `BROKEN` if the node is inside a character. */
  readonly below: Texts;
  /** The length of the longest token, in characters. */
  readonly longest: number;
}

type TrieNodes = Pick<TokenTrie, "bytes" | "depths" | "tokenStarts" | "ownEnds">;

/** The node before the first one of a path. */
const ROOT = -1;
/** Stands for the last boundary of a text with bytes that are no UTF-8. */
const NO_BOUNDARY = -2;

/** The nodes that are between two characters and nearest to each node on its path, or `ROOT`, or `NO_BOUNDARY`. */
interface Boundaries {
  /** The nearest one above the node. */
  readonly before: Int32Array;
  /** The node itself if it completes a character. */
  readonly after: Int32Array;
}

/** The characters of all texts in a trie. */
export function tokenTexts(nodes: TrieNodes): TrieTexts {
  const count = nodes.bytes.length;
  const own = emptyTexts(count);
  const parents = new Int32Array(count);
  const boundaries: Boundaries = { before: new Int32Array(count), after: new Int32Array(count) };
  const path: number[] = [ROOT];
  const states: Utf8State[] = [Utf8State.start];
  for (let node = 0; node < count; node++) {
    const depth = nodes.depths[node] as number;
    const byte = nodes.bytes[node] as number;
    const parent = path[depth - 1] as number;
    const state = (states[depth - 1] as Utf8State).step(byte);
    const isBoundary = state === Utf8State.start;
    const before = parent === ROOT ? ROOT : (boundaries.after[parent] as number);
    const kinds = parent === ROOT ? 0 : (own.kinds[parent] as number) & ~BROKEN;
    const length = parent === ROOT ? 0 : (own.lengths[parent] as number);
    own.kinds[node] = kinds | (isBoundary ? lastKind(byte) : BROKEN);
    own.lengths[node] = isBoundary ? length + 1 : length;
    boundaries.before[node] = before;
    boundaries.after[node] = isBoundary ? node : state === Utf8State.broken ? NO_BOUNDARY : before;
    parents[node] = parent;
    path[depth] = node;
    states[depth] = state;
  }
  const subtree = subtreeTexts(nodes, own, parents);
  const longest = subtree.lengths.reduce((most, length) => Math.max(most, length), 0);
  return { own, subtree, below: textsBelow(nodes, boundaries), longest };
}

function emptyTexts(count: number): Texts {
  return { kinds: new Int32Array(count), lengths: new Uint32Array(count) };
}

/** The kind of a character, from its last byte. */
function lastKind(byte: number): number {
  return byte < 0x80 ? (ASCII_KINDS[byte] as number) : MULTIBYTE;
}

function isToken({ tokenStarts, ownEnds }: TrieNodes, node: number): boolean {
  return (ownEnds[node] as number) > (tokenStarts[node] as number);
}

/** From the last node to the first, so that children come before their parent. */
function subtreeTexts(nodes: TrieNodes, own: Texts, parents: Int32Array): Texts {
  const { kinds, lengths } = emptyTexts(parents.length);
  for (let node = parents.length - 1; node >= 0; node--) {
    if (isToken(nodes, node)) {
      kinds[node] = (kinds[node] as number) | (own.kinds[node] as number);
      lengths[node] = Math.max(lengths[node] as number, own.lengths[node] as number);
    }
    const parent = parents[node] as number;
    if (parent === ROOT) continue;
    kinds[parent] = (kinds[parent] as number) | (kinds[node] as number);
    lengths[parent] = Math.max(lengths[parent] as number, lengths[node] as number);
  }
  return { kinds, lengths };
}

/** From the last node to the first, so that a character is added to the boundary before it once its node is complete. */
function textsBelow(nodes: TrieNodes, { before, after }: Boundaries): Texts {
  const { kinds, lengths } = emptyTexts(before.length);
  for (let node = before.length - 1; node >= 0; node--) {
    const isBoundary = after[node] === node;
    if (!isBoundary) kinds[node] = BROKEN;
    const boundary = before[node] as number;
    if (boundary < 0) continue;
    if (isBoundary) {
      kinds[boundary] = (kinds[boundary] as number) | lastKind(nodes.bytes[node] as number) | (kinds[node] as number);
      lengths[boundary] = Math.max(lengths[boundary] as number, 1 + (lengths[node] as number));
    } else if (after[node] === NO_BOUNDARY || isToken(nodes, node)) {
      kinds[boundary] = (kinds[boundary] as number) | BROKEN;
    }
  }
  return { kinds, lengths };
}
