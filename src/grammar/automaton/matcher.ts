// Matches one text against a grammar: which tokens may follow, and the step by one of them.

import { GrammarError } from "../../errors.js";
import { GRAMMAR_LIMITS } from "../limits.js";
import type { Automaton } from "./automaton.js";
import type { CompiledGrammar } from "./compiled-grammar.js";
import type { EarleySet } from "./earley-set.js";
import { loopOf } from "./loops.js";
import type { TokenTrie } from "./token-trie.js";

/** Subtrees with fewer tokens are walked, because checking whether they can be taken as a whole takes longer. */
const WORTH_ASKING = 24;
/** A set that takes this many kinds of characters takes nearly all tokens, at least short ones. */
const WIDE_KINDS = 16;
const COVERED_LENGTH = 8;

/** The state of one text in a grammar. */
export class GrammarMatcher {
  readonly #grammar: CompiledGrammar;
  readonly #automaton: Automaton;
  readonly #trie: TokenTrie;
  #set: EarleySet;
  /** Whether an end-of-generation token was accepted; only such tokens may follow. */
  #ended = false;

  constructor(grammar: CompiledGrammar, trie: TokenTrie, set: EarleySet = grammar.automaton.start) {
    this.#grammar = grammar;
    this.#automaton = grammar.automaton;
    this.#trie = trie;
    this.#set = set;
  }

  /** Whether the text may end here. */
  get accepting(): boolean {
    return this.#set.accepting;
  }

  fork(): GrammarMatcher {
    const fork = new GrammarMatcher(this.#grammar, this.#trie, this.#set);
    fork.#ended = this.#ended;
    return fork;
  }

  /** Appends a token; false, without a change, if it may not follow. */
  accept(token: number): boolean {
    const { offsets, bytes, endTokens } = this.#trie.vocabulary;
    if (endTokens.includes(token)) return (this.#ended ||= this.#set.accepting);
    const [from, to] = [offsets[token], offsets[token + 1]];
    return (
      !this.#ended && from !== undefined && to !== undefined && to > from && this.acceptBytes(bytes.subarray(from, to))
    );
  }

  /** Appends bytes; false, without a change, if they may not follow. */
  acceptBytes(bytes: Uint8Array): boolean {
    const next = this.#automaton.walk(this.#set, bytes);
    if (next === null) return false;
    this.#set = next;
    return true;
  }

  /**
   * Writes the mask of the tokens that may follow, end-of-generation tokens included if the text may end; false if
   * there is none.
   */
  writeMask(mask: Uint32Array): boolean {
    if (this.#ended) {
      mask.fill(0);
      return this.#allowEnd(mask);
    }
    const known = this.#trie.masks.get(this.#set);
    if (known !== undefined) {
      mask.set(known.mask);
      return known.some;
    }
    mask.fill(0);
    const goesOn = this.#walk(mask);
    const some = (this.#set.accepting && this.#allowEnd(mask)) || goesOn;
    this.#trie.masks.set(this.#set, { mask: mask.slice(), some });
    return some;
  }

  #allowEnd(mask: Uint32Array): boolean {
    const { endTokens } = this.#trie.vocabulary;
    for (const token of endTokens) mask[token >>> 5] |= 1 << (token & 31);
    return endTokens.length > 0;
  }

  #walk(mask: Uint32Array): boolean {
    const limit = this.#automaton.work + GRAMMAR_LIMITS.maskWork;
    const { kinds, room } = loopOf(this.#automaton, this.#set);
    if (bitsOf(kinds) < WIDE_KINDS || room < COVERED_LENGTH) return this.#walkNodes(mask, undefined, limit);
    const cover = this.#trie.cover(kinds, room);
    for (let word = 0; word < mask.length; word++) mask[word] = cover.mask[word] as number;
    this.#walkNodes(mask, cover.nodes, limit);
    return true;
  }

  /** Walks all nodes of the trie, or some of them, in order. */
  #walkNodes(mask: Uint32Array, nodes: Uint32Array | undefined, limit: number): boolean {
    const { bytes, depths, ends, tokenStarts, ownEnds, nodeCount } = this.#trie;
    const automaton = this.#automaton;
    const { classes } = automaton;
    const path: EarleySet[] = [this.#set];
    const count = nodes?.length ?? nodeCount;
    let some = false;
    for (let place = 0; place < count;) {
      const node = nodes === undefined ? place : (nodes[place] as number);
      const depth = depths[node] as number;
      const parent = path[depth - 1] as EarleySet;
      const byteClass = classes[bytes[node] as number] as number;
      let set = parent.next[byteClass];
      if (set === undefined) {
        set = automaton.step(parent, byteClass);
        if (automaton.work > limit) throw tooSlow();
      }
      const end = ends[node] as number;
      const first = tokenStarts[node] as number;
      const last = tokenStarts[end] as number;
      const whole = set !== null && last - first >= WORTH_ASKING && this.#covers(set, node);
      if (set !== null) {
        const until = whole ? last : (ownEnds[node] as number);
        if (until > first) {
          some = true;
          this.#allow(mask, first, until);
        }
        path[depth] = set;
      }
      if (set !== null && !whole) place++;
      else if (nodes === undefined) place = end;
      else while (place < count && (nodes[place] as number) < end) place++;
    }
    return some;
  }

  #allow(mask: Uint32Array, from: number, to: number): void {
    const { tokens } = this.#trie;
    for (let place = from; place < to; place++) {
      const token = tokens[place] as number;
      mask[token >>> 5] |= 1 << (token & 31);
    }
  }

  /** Whether every text below a node of the trie leads a set back to itself. */
  #covers(set: EarleySet, node: number): boolean {
    const { kinds, lengths } = this.#trie;
    const below = kinds[node] as number;
    if (below < 0) return false;
    const { kinds: taken, room } = loopOf(this.#automaton, set);
    return (below & ~taken) === 0 && (lengths[node] as number) <= room;
  }
}

function bitsOf(value: number): number {
  let count = 0;
  for (let rest = value; rest !== 0; rest &= rest - 1) count++;
  return count;
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
