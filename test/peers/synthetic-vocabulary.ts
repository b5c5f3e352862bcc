// Seeded random vocabularies, with features that real ones seldom have: merges whose result is no token, bytes without
// a token, tokens that contain a space, equal scores, user-defined tokens inside words.

import { arr, bool, f32, str, u32, type GgufEntry } from "../../src/gguf/entry.js";
import { SPELLING_OF_BYTE } from "../../src/tokenizer/byte-level.js";
import type { Dice } from "../support/dice.js";

const TYPES = { normal: 1, unknown: 2, control: 3, userDefined: 4, unused: 5, byte: 6 } as const;
const ALPHABET = [..."▁▁▁ethaonsirdlH'!. 12\n".replaceAll(" ", ""), "ä", "中", "文", "🚀", "\u0301"];

interface Token {
  readonly text: string;
  readonly type: number;
  readonly score: number;
}

const byteToken = (byte: number): Token => ({
  text: `<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`,
  type: TYPES.byte,
  score: 0,
});

const SPECIALS: readonly Token[] = [
  { text: "<unk>", type: TYPES.unknown, score: 0 },
  { text: "<s>", type: TYPES.control, score: 0 },
  { text: "</s>", type: TYPES.control, score: 0 },
  { text: "<|im_end|>", type: TYPES.normal, score: -1 },
  { text: "<user>", type: TYPES.userDefined, score: 0 },
  { text: "ther", type: TYPES.userDefined, score: -3 },
  { text: "", type: TYPES.unused, score: 0 },
];

function withoutRepeats(tokens: readonly Token[]): Token[] {
  return [...new Map(tokens.toReversed().map((token) => [token.text, token])).values()].toReversed();
}

function vocabularyEntries(tokens: readonly Token[]): GgufEntry[] {
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
    arr(
      "tokenizer.ggml.scores",
      "float32",
      tokens.map(({ score }) => score),
    ),
    u32("tokenizer.ggml.bos_token_id", 1),
    u32("tokenizer.ggml.eos_token_id", 2),
    f32("general.unrelated", 1),
  ];
}

function randomText(dice: Dice): string {
  let text = "";
  for (let length = 1 + dice.below(6); length > 0; length--) text += dice.pick(ALPHABET);
  return text;
}

export function syntheticSpm(dice: Dice): GgufEntry[] {
  const words = Array.from({ length: 400 }, () => ({
    text: randomText(dice),
    type: TYPES.normal,
    score: -dice.below(40),
  }));
  const bytes = Array.from({ length: 256 }, (_, byte) => byteToken(byte));
  return [
    ...vocabularyEntries(withoutRepeats([...SPECIALS, ...bytes, ...words])),
    str("tokenizer.ggml.model", "llama"),
    bool("tokenizer.ggml.add_space_prefix", dice.below(2) === 0),
    bool("tokenizer.ggml.add_eos_token", dice.below(2) === 0),
  ];
}

/** Merges over random neighbours among the existing symbols; one result in eight is left out of the vocabulary. */
function randomMerges(dice: Dice, symbols: string[], tokens: Token[]): string[] {
  const merges = new Set<string>();
  for (let count = 0; count < 500; count++) {
    const left = dice.pick(symbols);
    const right = dice.pick(symbols);
    if (left.length + right.length > 12) continue;
    merges.add(`${left} ${right}`);
    symbols.push(left + right);
    if (dice.below(8) > 0) tokens.push({ text: left + right, type: TYPES.normal, score: 0 });
  }
  return [...merges];
}

export function syntheticBpe(dice: Dice, preTokenizer: string): GgufEntry[] {
  const tokens: Token[] = [...SPECIALS];
  const symbols = ALPHABET.flatMap((character) =>
    Array.from(Buffer.from(character === "▁" ? " " : character), (byte) =>
      (SPELLING_OF_BYTE[byte] as Buffer).toString(),
    ),
  );
  for (const spelling of SPELLING_OF_BYTE)
    if (dice.below(10) > 0) tokens.push({ text: spelling.toString(), type: TYPES.normal, score: 0 });
  const merges = randomMerges(dice, symbols, tokens);
  return [
    ...vocabularyEntries(withoutRepeats(tokens)),
    str("tokenizer.ggml.model", "gpt2"),
    str("tokenizer.ggml.pre", preTokenizer),
    arr("tokenizer.ggml.merges", "string", merges),
  ];
}

/** Byte-pair merges over plain text with `▁` for a space, as Gemma 4 has them. */
export function syntheticGemma(dice: Dice): GgufEntry[] {
  const tokens: Token[] = [...SPECIALS, ...Array.from({ length: 256 }, (_, byte) => byteToken(byte))];
  tokens.push({ text: "\n\n", type: TYPES.normal, score: 0 }, { text: "\n\n\n\n", type: TYPES.normal, score: 0 });
  for (const text of ALPHABET) if (dice.below(8) > 0) tokens.push({ text, type: TYPES.normal, score: 0 });
  const merges = randomMerges(
    dice,
    ALPHABET.filter((text) => text !== "\n"),
    tokens,
  );
  return [
    ...vocabularyEntries(withoutRepeats(tokens)),
    str("tokenizer.ggml.model", "gemma4"),
    arr("tokenizer.ggml.merges", "string", merges),
  ];
}
