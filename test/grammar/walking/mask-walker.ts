// Walks over what a grammar's masks allow. Whatever a model chooses is such a walk: what these cannot reach, no answer can.

import type { CompiledGrammar } from "../../../src/grammar/automaton/compiled-grammar.js";
import { GrammarMatcher } from "../../../src/grammar/automaton/matcher.js";
import { recognizes } from "../../../src/grammar/automaton/recognizer.js";
import { TokenTrie } from "../../../src/grammar/automaton/token-trie.js";
import type { PackedVocabulary } from "../../../src/grammar/automaton/packed-vocabulary.js";
import type { Dice } from "../../support/dice.js";
import { BYTE_VOCABULARY, tokenBytes } from "./test-vocabulary.js";

/** After this many tokens a walk ends the text where it may, and closes what is open. */
const CLOSING_TOKENS = 24;
/** A walk that has not ended by then has missed what it needs to end, and another is tried. */
const MAX_TOKENS = 300;
const MAX_TRIES = 40;
const CLOSING = [...'"}]'].map((character) => character.charCodeAt(0));

export interface WalkOptions {
  /** Called at every step. */
  readonly visit?: (matcher: GrammarMatcher, allowed: readonly number[]) => void;
  /** A text whose end may lead to an end where tokens at random would not; tried when a walk has gone on for long enough. */
  readonly wayOut?: () => Uint8Array;
  readonly maxTokens?: number;
}

const tries = new WeakMap<PackedVocabulary, TokenTrie>();

export function trieOf(vocabulary: PackedVocabulary): TokenTrie {
  let trie = tries.get(vocabulary);
  if (trie === undefined) tries.set(vocabulary, (trie = TokenTrie.of(vocabulary)));
  return trie;
}

export class MaskWalker {
  readonly grammar: CompiledGrammar;
  readonly vocabulary: PackedVocabulary;
  readonly #mask: Uint32Array;
  readonly #closing: readonly number[];
  readonly #everyToken: readonly number[];

  constructor(grammar: CompiledGrammar, vocabulary: PackedVocabulary = BYTE_VOCABULARY) {
    this.grammar = grammar;
    this.vocabulary = vocabulary;
    this.#mask = new Uint32Array((vocabulary.size + 31) >>> 5);
    this.#everyToken = Array.from({ length: vocabulary.size }, (_, token) => token);
    this.#closing = tokensOfOneByte(vocabulary)
      .filter(({ byte }) => CLOSING.includes(byte))
      .map(({ token }) => token);
  }

  start(): GrammarMatcher {
    return new GrammarMatcher(this.grammar, trieOf(this.vocabulary));
  }

  isEnd(token: number): boolean {
    return this.vocabulary.endTokens.includes(token);
  }

  bytesOf(token: number): Uint8Array {
    return tokenBytes(this.vocabulary, token);
  }

  /** In ascending order. */
  allowed(matcher: GrammarMatcher): number[] {
    this.#mask.fill(0xffffffff);
    const any = matcher.writeMask(this.#mask);
    const allowed = this.#tokensOfMask();
    if (any !== allowed.length > 0) throw new Error(`writeMask said ${any}, and its mask has ${allowed.length} tokens`);
    return allowed;
  }

  /** A random text to its end. Throws if a mask allows nothing, or a token that is then refused. */
  walk(dice: Dice, options: WalkOptions = {}): Uint8Array {
    for (let turn = 0; turn < MAX_TRIES; turn++) {
      const text = this.walkOnce(dice, options);
      if (text !== undefined) return text;
    }
    throw new Error(`no walk of ${MAX_TRIES} came to an end within ${MAX_TOKENS} tokens`);
  }

  /** A text along the masks, cut into tokens at random: at each step the mask has to hold one that the text goes on with. */
  retrace(text: Uint8Array, dice: Dice): void {
    const matcher = this.start();
    for (let at = 0; at < text.length;) {
      const rest = Buffer.from(text.subarray(at));
      const fitting = this.allowed(matcher).filter((token) => isStart(this.bytesOf(token), rest));
      if (fitting.length === 0)
        throw new Error(`behind ${shown([text.subarray(0, at)])} no token of the mask begins ${shown([rest])}`);
      const token = dice.pick(fitting);
      if (!matcher.accept(token))
        throw new Error(`token ${token} is in the mask and refused, behind ${shown([text.subarray(0, at)])}`);
      at += this.bytesOf(token).length;
    }
    if (!this.allowed(matcher).some((token) => this.isEnd(token)))
      throw new Error(`the mask lets no end follow ${shown([text])}`);
  }

  /** The same, once; undefined if it has not ended within so many tokens. */
  walkOnce(dice: Dice, { visit, wayOut, maxTokens = MAX_TOKENS }: WalkOptions): Uint8Array | undefined {
    const matcher = this.start();
    const parts: Uint8Array[] = [];
    for (let count = 0; count < maxTokens; count++) {
      const allowed = this.allowed(matcher);
      visit?.(matcher, allowed);
      if (allowed.length === 0) throw new Error(`nothing may follow ${shown(parts)}`);
      const ahead =
        count > CLOSING_TOKENS && !matcher.accepting && wayOut !== undefined ? endOf(wayOut(), matcher) : undefined;
      if (ahead !== undefined && matcher.acceptBytes(ahead)) {
        parts.push(ahead);
        continue;
      }
      const token = this.#choose(allowed, count, dice);
      if (this.isEnd(token)) return Buffer.concat(parts);
      if (!matcher.accept(token)) throw new Error(`token ${token} is in the mask and refused, behind ${shown(parts)}`);
      parts.push(this.bytesOf(token));
    }
    return undefined;
  }

  /** What masks do not say: tokens allowed though their bytes are refused, and the other way round. */
  maskFaults(
    matcher: GrammarMatcher,
    allowed: readonly number[],
    tokens: readonly number[] = this.#everyToken,
  ): readonly string[] {
    const inMask = new Set(allowed);
    const faults: string[] = [];
    for (const token of tokens) {
      const bytes = this.bytesOf(token);
      const expected = this.isEnd(token) ? matcher.accepting : bytes.length > 0 && matcher.fork().acceptBytes(bytes);
      if (expected !== inMask.has(token))
        faults.push(
          `token ${token} ${JSON.stringify(Buffer.from(bytes).toString("latin1"))}: bytes accepted ${expected}, in the mask ${inMask.has(token)}`,
        );
    }
    return faults;
  }

  /** By bytes alone. */
  accepts(text: Uint8Array): boolean {
    const matcher = this.start();
    return matcher.acceptBytes(text) && matcher.accepting;
  }

  /** The same, by the check of finished answers; both have to agree. */
  acceptsTwice(text: Uint8Array): boolean {
    const accepted = this.accepts(text);
    if (recognizes(this.grammar, text) !== accepted)
      throw new Error(`the matcher says ${accepted} to ${shown([text])}, and the check of finished answers does not`);
    return accepted;
  }

  #choose(allowed: readonly number[], count: number, dice: Dice): number {
    const hurry = count > CLOSING_TOKENS || dice.below(5) === 0;
    if (hurry) {
      const end = this.vocabulary.endTokens.find((token) => allowed.includes(token));
      if (end !== undefined) return end;
      const closing = this.#closing.filter((token) => allowed.includes(token));
      if (closing.length > 0 && dice.below(4) > 0) return dice.pick(closing);
    }
    return dice.pick(allowed);
  }

  #tokensOfMask(): number[] {
    const allowed: number[] = [];
    this.#mask.forEach((word, index) => {
      for (let rest = word; rest !== 0; rest &= rest - 1) {
        const token = 32 * index + 31 - Math.clz32(rest & -rest);
        if (token >= this.vocabulary.size)
          throw new Error(`the mask has token ${token}, and the vocabulary only ${this.vocabulary.size}`);
        allowed.push(token);
      }
    });
    return allowed;
  }
}

export function shown(parts: readonly Uint8Array[]): string {
  return JSON.stringify(Buffer.concat(parts).toString("utf8").slice(0, 400));
}

/** The longest end of a text that a matcher can end with. */
function endOf(text: Uint8Array, matcher: GrammarMatcher): Uint8Array | undefined {
  for (let start = 0; start < text.length; start++) {
    const rest = text.subarray(start);
    const tried = matcher.fork();
    if (tried.acceptBytes(rest) && tried.accepting) return rest;
  }
  return undefined;
}

function isStart(start: Uint8Array, of: Buffer): boolean {
  return start.length > 0 && start.length <= of.length && of.compare(start, 0, start.length, 0, start.length) === 0;
}

function tokensOfOneByte(vocabulary: PackedVocabulary): readonly { readonly token: number; readonly byte: number }[] {
  return Array.from({ length: vocabulary.size }, (_, token) => ({
    token,
    bytes: tokenBytes(vocabulary, token),
  })).flatMap(({ token, bytes }) => (bytes.length === 1 ? [{ token, byte: bytes[0] as number }] : []));
}
