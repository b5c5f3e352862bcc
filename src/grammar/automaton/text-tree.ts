// Many texts as a tree of their bytes, so that a list of thousands of values is matched one state at a time.

interface TreeStates {
  /** A state that reads the bytes and leads to another. */
  chain(bytes: Uint8Array, next: number): number;
  /** A state of edges, as triples. */
  branch(edges: readonly number[]): number;
  /** A state that is either of two. */
  either(one: number, other: number): number;
}

/**
 * Builds the states that match any of the given texts and lead to `next`, as a trie: shared prefixes share their
 * states.
 */
export function textTree(given: readonly Uint8Array[], next: number, states: TreeStates): number {
  const texts = [...given].sort((a, b) => Buffer.compare(a, b));
  // The texts from `from` to `to` share the bytes before `depth`.
  const subtree = (from: number, to: number, depth: number): number => {
    const first = texts[from] as Uint8Array;
    const last = texts[to - 1] as Uint8Array;
    let shared = depth;
    while (shared < first.length && first[shared] === last[shared]) shared++;
    if (shared > depth) return states.chain(first.subarray(depth, shared), subtree(from, to, shared));
    let start = from;
    while (start < to && (texts[start] as Uint8Array).length === depth) start++;
    const edges: number[] = [];
    while (start < to) {
      const byte = (texts[start] as Uint8Array)[depth] as number;
      let end = start + 1;
      while (end < to && (texts[end] as Uint8Array)[depth] === byte) end++;
      edges.push(byte, byte, subtree(start, end, depth + 1));
      start = end;
    }
    if (edges.length === 0) return next;
    const onwards = states.branch(edges);
    return first.length === depth ? states.either(onwards, next) : onwards;
  };
  return subtree(0, texts.length, 0);
}
