// Computes the mask of a set by walking the vocabulary's trie together with the automaton. Three shortcuts skip most of
// the trie: a byte that may not follow ends its subtree, a subtree whose characters all stay in a loop is taken as a whole,
// and if the set itself is such a loop, the tokens inside it are known and only the others are walked.

import { GrammarError } from "../../errors.js";
import { GRAMMAR_LIMITS } from "../limits.js";
import type { Automaton } from "./automaton.js";
import { SMALL_LETTERS } from "./character-kinds.js";
import type { EarleySet } from "./earley-set.js";
import { isExact, type Loop, loopOf, mayTake } from "./loops.js";
import { MAX_SHORT, type TokenCover } from "./token-cover.js";
import type { TokenTrie } from "./token-trie.js";

/** Subtrees with fewer tokens are walked, because checking whether they can be taken as a whole takes longer. */
const WORTH_ASKING = 24;
/** With less room, a cover that leaves longer tokens to be checked leaves most of them. */
const COVERED_LENGTH = 8;

/** Writes the tokens that may follow a set into a mask, end-of-generation tokens excluded; false if there is none. */
export function computeMask(automaton: Automaton, set: EarleySet, trie: TokenTrie, mask: Uint32Array): boolean {
  mask.fill(0);
  const walk = new MaskWalk(automaton, set, trie, mask);
  // Most sets are inside a name or between two values, and few tokens may follow.
  if (!mayTake(automaton, set, SMALL_LETTERS)) return walk.all();
  const loop = loopOf(automaton, set);
  const isWide = (loop.kinds & SMALL_LETTERS) === SMALL_LETTERS && loop.room > 0;
  return isWide ? walk.uncovered(loop) : walk.all();
}

class MaskWalk {
  readonly #automaton: Automaton;
  readonly #trie: TokenTrie;
  readonly #mask: Uint32Array;
  /** The sets that lead to the current node, by depth. */
  readonly #path: EarleySet[];
  readonly #maxWork: number;

  constructor(automaton: Automaton, set: EarleySet, trie: TokenTrie, mask: Uint32Array) {
    this.#automaton = automaton;
    this.#trie = trie;
    this.#mask = mask;
    this.#path = [set];
    this.#maxWork = automaton.work + GRAMMAR_LIMITS.maskWork;
  }

  /** Walks the whole trie. */
  all(): boolean {
    return this.#walk(0, this.#trie.nodeCount);
  }

  /** Takes the tokens that stay inside the loop of the set, and walks the others. */
  uncovered(loop: Loop): boolean {
    const { covers, texts } = this.#trie;
    const mask = this.#mask;
    const { kinds, room } = loop;
    if (room < texts.longest && room <= MAX_SHORT && isExact(this.#automaton, this.#path[0] as EarleySet, loop)) {
      const cover = covers.of(kinds, Infinity);
      const short = covers.shortTokens(room);
      for (let word = 0; word < mask.length; word++)
        mask[word] = (cover.mask[word] as number) & (short[word] as number);
      return this.#walkCover(cover);
    }
    if (room < Math.min(texts.longest, COVERED_LENGTH)) return this.all();
    const cover = covers.of(kinds, room);
    mask.set(cover.mask);
    return this.#walkCover(cover);
  }

  /** Walks the tokens that a cover leaves out; returns whether the mask allows any token. */
  #walkCover({ nodes }: TokenCover): boolean {
    const { depths, ends } = this.#trie;
    const path = this.#path;
    let some = this.#mask.some((word) => word !== 0);
    for (let place = 0; place < nodes.length;) {
      const entry = nodes[place++] as number;
      const node = entry < 0 ? ~entry : entry;
      const set = this.#step(node);
      if (set !== null) {
        if (this.#trie.allowOwn(this.#mask, node)) some = true;
        path[depths[node] as number] = set;
        if (entry < 0 && this.#walk(node + 1, ends[node] as number)) some = true;
      } else if (entry >= 0) {
        const end = ends[node] as number;
        while (place < nodes.length && indexOf(nodes[place] as number) < end) place++;
      }
    }
    return some;
  }

  /** Walks a range of nodes in order, below nodes whose sets are in the path; returns whether any token is allowed. */
  #walk(from: number, to: number): boolean {
    const trie = this.#trie;
    const { depths, ends, tokenStarts } = trie;
    const path = this.#path;
    let some = false;
    for (let node = from; node < to;) {
      const set = this.#step(node);
      const end = ends[node] as number;
      if (set === null) {
        node = end;
        continue;
      }
      const tokens = (tokenStarts[end] as number) - (tokenStarts[node] as number);
      if (tokens >= WORTH_ASKING && this.#takesSubtree(set, node)) {
        trie.allowSubtree(this.#mask, node);
        some = true;
        node = end;
        continue;
      }
      if (trie.allowOwn(this.#mask, node)) some = true;
      path[depths[node] as number] = set;
      node++;
    }
    return some;
  }

  /** The set that a node's byte leads to. */
  #step(node: number): EarleySet | null {
    const automaton = this.#automaton;
    const parent = this.#path[(this.#trie.depths[node] as number) - 1] as EarleySet;
    const byteClass = automaton.classes[this.#trie.bytes[node] as number] as number;
    const known = parent.next[byteClass];
    if (known !== undefined) return known;
    const set = automaton.step(parent, byteClass);
    if (automaton.work > this.#maxWork) throw tooSlow();
    return set;
  }

  /** Whether every text below a node of the trie stays inside the loop of a set. */
  #takesSubtree(set: EarleySet, node: number): boolean {
    const { below } = this.#trie.texts;
    const kinds = below.kinds[node] as number;
    if (kinds < 0 || !mayTake(this.#automaton, set, kinds)) return false;
    const loop = loopOf(this.#automaton, set);
    return (kinds & ~loop.kinds) === 0 && (below.lengths[node] as number) <= loop.room;
  }
}

/** The node of an entry of a cover. */
function indexOf(entry: number): number {
  return entry < 0 ? ~entry : entry;
}

function tooSlow(): GrammarError {
  return new GrammarError(
    "GRAMMAR_LIMIT",
    "[grammar] expected a grammar whose next tokens are soon found, found one that takes too much work at this place; make it less ambiguous",
    {
      details: { limit: "maskWork", most: GRAMMAR_LIMITS.maskWork },
    },
  );
}
