// Matches one text against a grammar: which tokens may follow, and the step by one of them.

import type { Automaton } from "./automaton.js";
import type { CompiledGrammar } from "./compiled-grammar.js";
import { computeMask } from "./compute-mask.js";
import type { EarleySet } from "./earley-set.js";
import type { TokenTrie } from "./token-trie.js";

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
    const goesOn = computeMask(this.#automaton, this.#set, this.#trie, mask);
    const some = (this.#set.accepting && this.#allowEnd(mask)) || goesOn;
    this.#trie.masks.add(this.#set, mask, some);
    return some;
  }

  #allowEnd(mask: Uint32Array): boolean {
    const { endTokens } = this.#trie.vocabulary;
    for (const token of endTokens) mask[token >>> 5] |= 1 << (token & 31);
    return endTokens.length > 0;
  }
}
