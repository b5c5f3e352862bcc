// Vocabularies learned from awkward texts as a whole, before any split: their merges cross every place where some
// pre-tokenizer cuts, so that a wrong cut changes the ids. Seeded, and the same on every machine.

import { arr, str, u32, type GgufEntry } from "../../src/gguf/entry.js";
import { byteTokenText } from "../../src/tokenizer/bpe-encoder.js";
import { SPELLING_OF_BYTE } from "../../src/tokenizer/byte-level.js";
import { Dice } from "../support/dice.js";
import { awkwardText } from "./awkward-text.js";

const TYPES = { normal: 1, control: 3, userDefined: 4, byte: 6 } as const;
/** Far from the seeds of the texts that are compared. */
const FIRST_TRAINING_SEED = 900_000_000;
const TRAINING_TEXTS = 400;
const ROUNDS = 4;
const MERGES_PER_ROUND = 1000;
/** Runs of line feeds that Gemma 4 has tokens for, though no merge leads to them. */
const LINE_FEED_RUNS = [1, 2, 3, 4, 8];
export const MARKS = ["<user>", "<s>", "</s>", "<|im_end|>"];

interface Learned {
  readonly symbols: readonly string[];
  readonly merges: readonly string[];
}

/**
 * Byte-pair merges of neighbours that occur more than once, in random order: by frequency, what stands on both sides of
 * a cut would seldom merge first, and the cut would not show.
 */
function learn(texts: readonly (readonly string[])[]): Learned {
  const dice = new Dice(FIRST_TRAINING_SEED);
  const known = new Set(texts.flat());
  const merges = new Set<string>();
  let words = texts;
  for (let round = 0; round < ROUNDS; round++) {
    const counts = new Map<string, number>();
    for (const word of words)
      for (let at = 1; at < word.length; at++) {
        const pair = `${word[at - 1]} ${word[at]}`;
        counts.set(pair, (counts.get(pair) ?? 0) + 1);
      }
    const repeated = [...counts.keys()].filter((pair) => (counts.get(pair) ?? 0) > 1);
    const chosen = new Set(Array.from({ length: MERGES_PER_ROUND }, () => dice.pick(repeated)));
    for (const pair of chosen) {
      merges.add(pair);
      known.add(pair.replace(" ", ""));
    }
    words = words.map((word) => joined(word, chosen));
  }
  return { symbols: [...known], merges: [...merges] };
}

function joined(word: readonly string[], pairs: ReadonlySet<string>): string[] {
  const result: string[] = [];
  for (let at = 0; at < word.length; at++) {
    const [left, right] = [word[at] as string, word[at + 1]];
    if (right !== undefined && pairs.has(`${left} ${right}`)) {
      result.push(left + right);
      at++;
    } else result.push(left);
  }
  return result;
}

const trainingTexts = (): string[] =>
  Array.from({ length: TRAINING_TEXTS }, (_, index) => awkwardText(FIRST_TRAINING_SEED + index, []));

/** Each vocabulary is learned once, whatever pre-tokenizers use it. */
let byteLevel: Learned | undefined;
let plainText: Learned | undefined;

function learnedBytes(): Learned {
  byteLevel ??= learn(
    trainingTexts().map((text) =>
      Array.from(Buffer.from(text), (byte) => (SPELLING_OF_BYTE[byte] as Buffer).toString()),
    ),
  );
  return byteLevel;
}

function learnedText(): Learned {
  plainText ??= learn(
    trainingTexts()
      .flatMap((text) => text.replaceAll(" ", "▁").split("\n"))
      .map((line) => [...line]),
  );
  return plainText;
}

/** A vocabulary of byte-level BPE for the pre-tokenizer of this name. */
export function trainedBpe(preTokenizer: string): GgufEntry[] {
  const { symbols, merges } = learnedBytes();
  const all = [...SPELLING_OF_BYTE.map((spelling) => spelling.toString()), ...symbols];
  return [
    ...entriesOf(all.map((text) => ({ text, type: TYPES.normal }))),
    str("tokenizer.ggml.model", "gpt2"),
    str("tokenizer.ggml.pre", preTokenizer),
    arr("tokenizer.ggml.merges", "string", merges),
  ];
}

/** A vocabulary of plain text with `▁` for a space, as Gemma 4 has it; every fifth character only as bytes. */
export function trainedText(model: "gemma4" | "gpt2", preTokenizer?: string): GgufEntry[] {
  const { symbols, merges } = learnedText();
  const spelled = symbols.filter((text, index) => [...text].length > 1 || index % 5 > 0 || text === "▁");
  const tokens = [
    ...Array.from({ length: 256 }, (_, byte) => ({ text: byteTokenText(byte), type: TYPES.byte })),
    ...[...LINE_FEED_RUNS.map((count) => "\n".repeat(count)), ...spelled].map((text) => ({ text, type: TYPES.normal })),
  ];
  return [
    ...entriesOf(tokens),
    str("tokenizer.ggml.model", model),
    ...(preTokenizer === undefined ? [] : [str("tokenizer.ggml.pre", preTokenizer)]),
    arr("tokenizer.ggml.merges", "string", merges),
  ];
}

function entriesOf(learned: readonly { readonly text: string; readonly type: number }[]): GgufEntry[] {
  const specials = [
    ...MARKS.map((text, index) => ({ text, type: index === 0 ? TYPES.userDefined : TYPES.control })),
    ...Array.from({ length: 12 }, (_, index) => ({ text: `<unused${index}>`, type: TYPES.userDefined })),
  ];
  const tokens = [...new Map([...specials, ...learned].toReversed().map((token) => [token.text, token])).values()];
  tokens.reverse();
  return [
    str("general.architecture", "llama"),
    arr(
      "tokenizer.ggml.tokens",
      "string",
      tokens.map(({ text }) => text),
    ),
    arr(
      "tokenizer.ggml.token_type",
      "int32",
      tokens.map(({ type }) => type),
    ),
    u32("tokenizer.ggml.bos_token_id", 1),
    u32("tokenizer.ggml.eos_token_id", 2),
  ];
}
