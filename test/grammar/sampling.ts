// Texts drawn at random from what a grammar's masks allow, with the embedded model's vocabulary: no model is needed to
// show that whatever a model would choose, the text holds to its grammar.

import type { Grammar } from "../../src/grammar/worker/grammar.js";
import { packVocabulary, type PackedVocabulary } from "../../src/grammar/automaton/packed-vocabulary.js";
import { GgufFile } from "../../src/gguf/file.js";
import { createTokenizer, type Tokenizer } from "../../src/tokenizer/tokenizer.js";
import type { Dice } from "../support/dice.js";

const MODEL = new URL("../../models/fable-10m-Q4_K_M.gguf", import.meta.url).pathname;

export async function embeddedTokenizer(): Promise<Tokenizer> {
  using file = await GgufFile.open(MODEL);
  return createTokenizer(file.metadata);
}

let packed: Promise<PackedVocabulary> | undefined;

/** The same as the threads get it. */
export function embeddedVocabulary(): Promise<PackedVocabulary> {
  packed ??= embeddedTokenizer().then((tokenizer) => packVocabulary(tokenizer, tokenizer.vocabularySize));
  return packed;
}

export interface Drawn {
  readonly text: string;
  readonly tokens: readonly number[];
}

/** After this many tokens it takes what ends the text or closes something, where it may, and otherwise single letters. */
const CLOSING_TOKENS = 40;
/** A text that has not ended by then cannot end. */
const MAX_TOKENS = 3000;
const CLOSING = ['"', "}", "]"];
const LETTERS = Array.from({ length: 95 }, (_, index) => String.fromCharCode(32 + index));

export async function drawText(tokenizer: Tokenizer, grammar: Grammar, dice: Dice): Promise<Drawn> {
  const [closing = [], letters = []] = [CLOSING, LETTERS].map((texts) =>
    texts.flatMap((text) => [...tokenizer.encode(text, { addSpecial: false })].slice(0, 1)),
  );
  using constraint = grammar.constraint();
  const tokens: number[] = [];
  while (tokens.length < MAX_TOKENS) {
    const mask = await constraint.allowed();
    const allowed = allowedTokens(mask, tokenizer.vocabularySize);
    const ends = allowed.filter((token) => tokenizer.endOfGeneration.has(token));
    const closes = closing.filter((token) => allowed.includes(token));
    const plain = letters.filter((token) => allowed.includes(token));
    const hurry = tokens.length > CLOSING_TOKENS || dice.below(4) === 0;
    const token = dice.pick(
      (hurry ? [ends, dice.below(2) === 0 ? closes : plain, plain] : []).find((list) => list.length > 0) ?? allowed,
    );
    constraint.accept(token);
    if (tokenizer.endOfGeneration.has(token)) return { text: textOf(tokenizer, tokens), tokens };
    tokens.push(token);
  }
  throw new Error(`the text did not end: ${textOf(tokenizer, tokens).slice(0, 500)}`);
}

export function allowedTokens(mask: Uint32Array, size: number): readonly number[] {
  const allowed: number[] = [];
  for (let token = 0; token < size; token++)
    if (((mask[token >>> 5] as number) >>> (token & 31)) & 1) allowed.push(token);
  return allowed;
}

/** Strict: bytes that are no UTF-8 throw. */
export function textOf(tokenizer: Tokenizer, tokens: readonly number[]): string {
  return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(
    Buffer.concat(tokens.map((token) => tokenizer.tokenBytes(token))),
  );
}
