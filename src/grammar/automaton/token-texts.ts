// The kinds and the number of characters in the texts of a trie: of each node's own text, of all tokens in a subtree, and
// of what follows a node in its subtree.

import { ASCII_KINDS, BROKEN, MULTIBYTE, Utf8State } from "./character-kinds.js";
import type { TokenTrie } from "./token-trie.js";

/** Texts, one for each node of a trie, or several, of which the kinds of all and the greatest length count. */
interface Texts {
  /** Kinds of characters; includes `BROKEN` if some bytes are no complete character. */
  readonly kinds: Int32Array;
  /** Number of complete characters. */
  readonly lengths: Uint16Array;
}

/** The characters of the texts in a trie, by node. */
export interface TokenTexts {
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

/** A text that leads from the root to a node. */
interface Path {
  readonly node: number;
  readonly state: Utf8State;
  readonly kinds: number;
  readonly length: number;
  /** The last node on the path that is between two characters; -1 is the root, and -2 that bytes are no UTF-8. */
  readonly boundary: number;
}

const ROOT: Path = { node: -1, state: Utf8State.start, kinds: 0, length: 0, boundary: -1 };
const NO_BOUNDARY = -2;

/** The characters of all texts in a trie. */
export function tokenTexts(nodes: TrieNodes): TokenTexts {
  const count = nodes.bytes.length;
  const own = emptyTexts(count);
  const parents = new Int32Array(count);
  /** The last boundary before each node, and the one after it: the node itself if it completes a character. */
  const boundaries = { before: new Int32Array(count), after: new Int32Array(count) };
  const paths: Path[] = [ROOT];
  for (let node = 0; node < count; node++) {
    const depth = nodes.depths[node] as number;
    const before = paths[depth - 1] as Path;
    const path = (paths[depth] = extended(before, node, nodes.bytes[node] as number));
    own.kinds[node] = path.boundary === node ? path.kinds : path.kinds | BROKEN;
    own.lengths[node] = path.length;
    parents[node] = before.node;
    boundaries.before[node] = before.boundary;
    boundaries.after[node] = path.boundary;
  }
  const subtree = subtreeTexts(nodes, own, parents);
  const longest = subtree.lengths.reduce((most, length) => Math.max(most, length), 0);
  return { own, subtree, below: textsBelow(nodes, boundaries), longest };
}

function emptyTexts(count: number): Texts {
  return { kinds: new Int32Array(count), lengths: new Uint16Array(count) };
}

function extended({ state: before, kinds, length, boundary }: Path, node: number, byte: number): Path {
  const state = before.step(byte);
  if (state === Utf8State.start)
    return { node, state, kinds: kinds | lastKind(byte), length: length + 1, boundary: node };
  return { node, state, kinds, length, boundary: state === Utf8State.broken ? NO_BOUNDARY : boundary };
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
    if (parent < 0) continue;
    kinds[parent] = (kinds[parent] as number) | (kinds[node] as number);
    lengths[parent] = Math.max(lengths[parent] as number, lengths[node] as number);
  }
  return { kinds, lengths };
}

/** From the last node to the first, so that a character is added to the boundary before it once its node is complete. */
function textsBelow(
  nodes: TrieNodes,
  { before, after }: { readonly before: Int32Array; readonly after: Int32Array },
): Texts {
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
