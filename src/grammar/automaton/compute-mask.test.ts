import { describe, expect, test } from "vitest";
import { compileGrammar } from "../compile-grammar.js";
import type { GrammarSpec } from "../grammar-spec.js";
import { GRAMMAR_LIMITS } from "../limits.js";
import type { CompiledGrammar } from "./compiled-grammar.js";
import { computeMask } from "./compute-mask.js";
import type { EarleySet } from "./earley-set.js";
import type { PackedVocabulary } from "./packed-vocabulary.js";
import { COUNTS, STATES } from "./item-list.js";
import { TokenTrie } from "./token-trie.js";

/** Numbers that look random and are the same in every run. */
function sequence(seed: number): (limit: number) => number {
  let state = seed;
  return (limit) => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    return Math.floor((state / 2 ** 32) * limit);
  };
}

const CHARACTERS = Array.from("abcfgzAFGZ019_-./ \"\\\n\t:,+@#'()[]{}<>*?&=%!$;~^`|éß日本😀\u00a0\u2028");
const WORDS = ["foo", "bar", "true", "null", '":"', '","', '"}', "\\n", "\\u00", "http://", "a".repeat(40)];
const PARTS = [...CHARACTERS, ...WORDS];

/** All bytes, and texts of up to 8 parts; some of them are cut inside a character, and some occur twice. */
function vocabulary(seed: number, count: number): PackedVocabulary {
  const below = sequence(seed);
  const texts = Array.from({ length: 256 }, (_, byte) => Buffer.of(byte));
  // Subtrees that are large enough to be taken as a whole; the last one has a token that ends inside a character.
  for (const first of ["", "a", "fo", "Z9", " b", '"q', '":"q', '"w'])
    for (let code = 97; code < 123; code++)
      texts.push(Buffer.from(`${first}${String.fromCharCode(code)}${"g".repeat(code % 5)}`));
  texts.push(Buffer.from('"w日').subarray(0, 4));
  while (texts.length < count) {
    const parts = Array.from({ length: 1 + below(8) }, () => PARTS[below(PARTS.length)]);
    const bytes = Buffer.from(parts.join(""));
    texts.push(below(8) === 0 ? bytes.subarray(below(3), bytes.length - below(3)) : bytes);
  }
  texts.push(Buffer.from("a".repeat(150)), Buffer.alloc(0));
  const offsets = new Uint32Array(texts.length + 1);
  texts.forEach(({ length }, token) => {
    offsets[token + 1] = (offsets[token] as number) + length;
  });
  return { size: texts.length, offsets, bytes: Buffer.concat(texts), endTokens: [] };
}

function textOf({ bytes, offsets }: PackedVocabulary, token: number): Uint8Array {
  return bytes.subarray(offsets[token], offsets[token + 1]);
}

/** The tokens of a mask, and those whose bytes the automaton takes one after the other. */
function compared({ automaton }: CompiledGrammar, set: EarleySet, trie: TokenTrie): readonly [number[], number[]] {
  const { vocabulary: packed } = trie;
  // Bits of an earlier mask must not remain.
  const mask = new Uint32Array(Math.ceil(packed.size / 32)).fill(0xffff_ffff);
  const some = computeMask(automaton, set, trie, mask);
  const tokens = Array.from({ length: packed.size }, (_, token) => token);
  const allowed = tokens.filter((token) => (((mask[token >>> 5] as number) >>> (token & 31)) & 1) === 1);
  expect(some).toBe(allowed.length > 0);
  const taken = tokens.filter((token) => {
    const text = textOf(packed, token);
    return text.length > 0 && automaton.walk(set, text) !== null;
  });
  return [allowed, taken];
}

const string = (more: object): GrammarSpec => ({ kind: "schema", schema: { type: "string", ...more } });
const regex = (pattern: string): GrammarSpec => ({ kind: "regex", pattern });

const GRAMMARS: readonly GrammarSpec[] = [
  string({}),
  ...[1, 3, 9, 20, 70, 140].map((maxLength) => string({ maxLength })),
  string({ minLength: 4, maxLength: 12 }),
  string({ pattern: "^[a-z]+$", maxLength: 9 }),
  ...[4, 5, 6].map((maxLength) => string({ pattern: "^[a-z]+$", maxLength })),
  string({ pattern: "^[^日]*$" }),
  string({ pattern: "foo", maxLength: 30 }),
  string({ pattern: "^.*\\S.*$" }),
  ...["uri", "date-time", "email", "uuid"].map((format) => string({ format })),
  string({ enum: ["foo", "foobar", "a g", "日本"] }),
  { kind: "schema", schema: { type: "object", properties: { foo: { type: "string", maxLength: 5 } } } },
  { kind: "schema", schema: { additionalProperties: { maxLength: 40 }, propertyNames: { pattern: "^[a-z]" } } },
  { kind: "schema", schema: { type: "array", items: { type: "number" } } },
  // Behind the counted letters, more letters follow.
  ...["[a-z0-9]{2,18}foo", "[a-z_]{10,40}[a-zA-Z ]{3}", "[a-z0-9_]{1,20}[^a]*", "(?:[a-z]{2}){3,40}z"].map(regex),
  ...["[a-z]+(?: [a-z]+)*", ".{9,}", "[^é]*", "[a-f0-9]+", "[\\s\\S]{0,16}", "(?:a|b|foo)*!", "\\p{L}{2,20}"].map(
    regex,
  ),
];

describe("a mask allows exactly the tokens that the automaton takes", () => {
  const tries = [TokenTrie.of(vocabulary(1, 3000)), TokenTrie.of(vocabulary(2, 700))];

  test.each(GRAMMARS.map((spec) => [JSON.stringify(spec), spec] as const))("%s", (_, spec) => {
    const below = sequence(3);
    for (const trie of tries) {
      const grammar = compileGrammar(spec);
      for (let walk = 0; walk < 4; walk++) {
        let set: EarleySet | null = grammar.automaton.start;
        for (let step = 0; step < 12 && set !== null; step++) {
          const [allowed, taken] = compared(grammar, set, trie);
          expect(allowed).toEqual(taken);
          if (taken.length === 0) break;
          set = grammar.automaton.walk(set, textOf(trie.vocabulary, taken[below(taken.length)] as number));
        }
      }
    }
  });

  test("with a token that is longer than 16 bits can count", () => {
    const texts = ["a", '"', "a".repeat(2 ** 16 + 4)].map((text) => Buffer.from(text));
    const offsets = Uint32Array.of(0, 1, 2, 2 ** 16 + 6);
    const trie = TokenTrie.of({ size: 3, offsets, bytes: Buffer.concat(texts), endTokens: [] });
    for (const spec of [string({ maxLength: 20 }), regex("[a-z]{0,20}")]) {
      const grammar = compileGrammar(spec);
      const set =
        spec.kind === "regex"
          ? grammar.automaton.start
          : grammar.automaton.walk(grammar.automaton.start, Buffer.from('"'));
      const [allowed, taken] = compared(grammar, set as EarleySet, trie);
      expect(allowed).toEqual(taken);
      expect(allowed).not.toContain(2);
    }
  });

  test("items have keys that are exact numbers", () => {
    expect((GRAMMAR_LIMITS.activeItems + 1) * COUNTS * STATES).toBeLessThan(Number.MAX_SAFE_INTEGER);
  });

  test("in a vocabulary without letters", () => {
    const texts = ['"', "日", "\\", " "].map((text) => Buffer.from(text));
    const offsets = Uint32Array.of(0, 1, 4, 5, 6);
    const trie = TokenTrie.of({ size: 4, offsets, bytes: Buffer.concat(texts), endTokens: [] });
    const grammar = compileGrammar(regex("[a-z]*"));
    expect(compared(grammar, grammar.automaton.start, trie)).toEqual([[], []]);
  });
});
