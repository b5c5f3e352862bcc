// A vocabulary in the manner of Gemma 1 to 3, made up: SentencePiece with scores, no space before the text, runs of line
// feeds and of spaces and HTML tags as user-defined tokens, placeholders, control tokens, and bytes for all else.

import { arr, bool, str, u32, type GgufEntry } from "../../src/gguf/entry.js";
import { byteTokenText } from "../../src/tokenizer/bpe-encoder.js";
import { Dice } from "../support/dice.js";
import { awkwardText } from "./awkward-text.js";

const TYPES = { normal: 1, unknown: 2, control: 3, userDefined: 4, unused: 5, byte: 6 } as const;
const LONGEST_RUN = 31;
const TOKEN_TEXTS = 3000;
const SPACE = "▁";
const TAGS = ["table", "tbody", "tr", "td", "h1", "h2", "b", "i", "code", "br"];
const LETTERS = [
  ..."eeetttaaooinshrdlucmfwypvbgkjqxzETAOINSHRDLU",
  ..."0123456789",
  ..."'.,!?-_()[]{}:;\"/<>#@&*+=|~",
  SPACE,
  SPACE,
  SPACE,
];
const OTHERS = [
  "ä",
  "é",
  "ß",
  "ñ",
  "中",
  "文",
  "日",
  "の",
  "я",
  "и",
  "ع",
  "ا",
  "\u0301",
  "🚀",
  "✅",
  "’",
  "…",
  "\t",
  "\r",
  "\u00a0",
];

interface Token {
  readonly text: string;
  readonly type: number;
  readonly score: number;
}

const userDefined = (text: string): Token => ({ text, type: TYPES.userDefined, score: -1000 });

function specials(): Token[] {
  const control = (text: string): Token => ({ text, type: TYPES.control, score: -1000 });
  return [
    control("<pad>"),
    control("<eos>"),
    control("<bos>"),
    { text: "<unk>", type: TYPES.unknown, score: -1000 },
    userDefined("<mask>"),
    userDefined("[multimodal]"),
    ...Array.from({ length: 20 }, (_, index) => userDefined(`<unused${index}>`)),
    control("<start_of_turn>"),
    control("<end_of_turn>"),
    ...Array.from({ length: LONGEST_RUN }, (_, index) => userDefined("\n".repeat(index + 1))),
    ...Array.from({ length: LONGEST_RUN - 1 }, (_, index) => userDefined(" ".repeat(index + 2))),
    ...TAGS.flatMap((tag) => [userDefined(`<${tag}>`), userDefined(`</${tag}>`)]),
    ...Array.from({ length: 256 }, (_, byte) => ({ text: byteTokenText(byte), type: TYPES.byte, score: -1000 })),
  ];
}

/** Pieces grow out of shorter ones, so that merges lead to most of them; their scores fall by rank, with some ties. */
function tokenTexts(dice: Dice): Token[] {
  const texts = [...new Set([...LETTERS, ...OTHERS.filter(() => dice.below(4) > 0)])];
  const singles = texts.length;
  while (texts.length < TOKEN_TEXTS) {
    const joined = dice.pick(texts) + dice.pick(texts);
    if (joined.length <= 12) texts.push(joined);
  }
  return [...new Set(texts)].map((text, rank) => ({
    text,
    type: TYPES.normal,
    score: rank < singles ? -(TOKEN_TEXTS + rank) : -(dice.below(8) === 0 ? rank - 1 : rank),
  }));
}

export function gemmaVocabulary(dice: Dice): GgufEntry[] {
  const made = [...specials(), ...tokenTexts(dice)];
  const tokens = [...new Map(made.toReversed().map((token) => [token.text, token])).values()].toReversed();
  const idOf = (text: string): number => tokens.findIndex((token) => token.text === text);
  return [
    str("general.architecture", "gemma3"),
    str("tokenizer.ggml.model", "llama"),
    str("tokenizer.ggml.pre", "default"),
    arr(
      "tokenizer.ggml.tokens",
      "string",
      tokens.map(({ text }) => text),
    ),
    arr(
      "tokenizer.ggml.scores",
      "float32",
      tokens.map(({ score }) => score),
    ),
    arr(
      "tokenizer.ggml.token_type",
      "int32",
      tokens.map(({ type }) => type),
    ),
    u32("tokenizer.ggml.bos_token_id", idOf("<bos>")),
    u32("tokenizer.ggml.eos_token_id", idOf("<eos>")),
    u32("tokenizer.ggml.unknown_token_id", idOf("<unk>")),
    u32("tokenizer.ggml.padding_token_id", idOf("<pad>")),
    bool("tokenizer.ggml.add_bos_token", true),
    bool("tokenizer.ggml.add_eos_token", false),
    bool("tokenizer.ggml.add_space_prefix", false),
  ];
}

const MARKS = [
  "<mask>",
  "<unused3>",
  "<table>",
  "</td>",
  "<br>",
  "[multimodal]",
  "<0x41>",
  "▁",
  "<bos>",
  "<start_of_turn>",
];

/** Awkward text with what this vocabulary has tokens of its own for. */
export function gemmaText(seed: number): string {
  const dice = new Dice(seed);
  const insertion = (): string => {
    switch (dice.below(4)) {
      case 0:
        return "\n".repeat(1 + dice.below(70));
      case 1:
        return " ".repeat(1 + dice.below(70));
      case 2:
        return dice.pick(MARKS);
      default:
        return "";
    }
  };
  return Array.from({ length: 1 + dice.below(4) }, (_, part) => insertion() + awkwardText(seed * 8 + part, MARKS)).join(
    insertion(),
  );
}
