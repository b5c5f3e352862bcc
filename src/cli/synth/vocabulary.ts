// A synthetic vocabulary of the right size: every byte, then words of two to four letters in all combinations, each
// with its merges. Tokenizers load and use it like a real one; its tokens have no meaning.

import { arr, bool, type GgufEntry, str, u32 } from "../../gguf/entry.js";
import { SPELLING_OF_BYTE } from "../../tokenizer/byte-level.js";
import type { VocabularyShape } from "./shape.js";

const LETTERS = Array.from("abcdefghijklmnopqrstuvwxyz");
const BYTES = 256;

/** GGUF's token types. */
const TYPE = { normal: 1, unknown: 2, control: 3, unused: 5, byte: 6 } as const;

/** GGUF's names of the two tokenizer models. */
const MODEL_NAME = { bpe: "gpt2", spm: "llama" } as const;

/** How GPT-2's alphabet and SentencePiece spell the space before a word. */
const SPACE = { bpe: "\u0120", spm: "\u2581" } as const;

/** The metadata entries of a synthetic vocabulary. */
export function vocabularyEntries(shape: VocabularyShape): GgufEntry[] {
  const specific = shape.kind === "bpe" ? bpeEntries(shape) : spmEntries(shape);
  return [
    str("tokenizer.ggml.model", MODEL_NAME[shape.kind]),
    ...specific,
    u32("tokenizer.ggml.bos_token_id", shape.bos),
    u32("tokenizer.ggml.eos_token_id", shape.eos),
    bool("tokenizer.ggml.add_bos_token", shape.addsBos),
  ];
}

function bpeEntries({ pre = "default", size, merges = 0, control }: VocabularyShape): GgufEntry[] {
  const ordinary = Math.min(size, ...Object.keys(control).map(Number));
  const words = makeWords(SPACE.bpe, ordinary - BYTES);
  const tokens = [...SPELLING_OF_BYTE.map(String), ...words];
  const types = new Int32Array(size).fill(TYPE.normal);
  for (let id = tokens.length; id < size; id++) {
    types[id] = TYPE.control;
    tokens.push(control[id] ?? `<|reserved_special_token_${id - ordinary}|>`);
  }
  return [
    str("tokenizer.ggml.pre", pre),
    arr("tokenizer.ggml.tokens", "string", tokens),
    arr("tokenizer.ggml.token_type", "int32", types),
    arr("tokenizer.ggml.merges", "string", makeMerges(words, merges)),
  ];
}

/** Earlier tokens have higher scores, so shorter ones are merged first. */
function spmEntries({ size, control }: VocabularyShape): GgufEntry[] {
  const tokens = ["<unk>", control[1], control[2]];
  const types = [TYPE.unknown, TYPE.control, TYPE.control] as number[];
  for (let byte = 0; byte < BYTES; byte++) {
    tokens.push(`<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`);
    types.push(TYPE.byte);
  }
  const firstWord = tokens.length;
  tokens.push(SPACE.spm, ...LETTERS);
  for (const word of makeWords(SPACE.spm, size - tokens.length)) tokens.push(word);
  while (types.length < size) types.push(TYPE.normal);
  return [
    arr("tokenizer.ggml.tokens", "string", tokens),
    arr(
      "tokenizer.ggml.scores",
      "float32",
      Float32Array.from(tokens, (_, id) => Math.min(0, firstWord - id)),
    ),
    arr("tokenizer.ggml.token_type", "int32", types),
    u32("tokenizer.ggml.unknown_token_id", 0),
  ];
}

/** The first `count` words of two letters, then of three, and so on; a space may be the first letter. */
function makeWords(space: string, count: number): string[] {
  const words: string[] = [];
  for (let shorter: readonly string[] = [space, ...LETTERS]; words.length < count;) {
    const longer = shorter.flatMap((word) => LETTERS.map((letter) => word + letter)).slice(0, count - words.length);
    for (const word of longer) words.push(word);
    shorter = longer;
  }
  return words;
}

/** Merges each word from the one before it and a letter; if more merges than words are needed, other splits follow. */
function makeMerges(words: readonly string[], count: number): string[] {
  const merges = words.slice(0, count).map((word) => `${word.slice(0, -1)} ${word.slice(-1)}`);
  for (let cut = 1; merges.length < count && cut < 3; cut++) {
    const divisible = words.filter((word) => word.length > cut + 1).slice(0, count - merges.length);
    for (const word of divisible) merges.push(`${word.slice(0, cut)} ${word.slice(cut)}`);
  }
  return merges;
}
