// The meaning of each name of `tokenizer.ggml.pre`: the splits that run before merging, and the defaults that come with
// the name. The names, patterns and defaults are those of llama.cpp (src/llama-vocab.cpp). Patterns are in two
// alphabets, see pre-split.ts: `collapsed` ones may use \p{L} \p{N} \p{P} \p{M} \p{S}, or \xD2 and \xD4 for a letter or
// mark outside ASCII; `wide` ones see the text itself. Both spell white space as [\t-\r ].

import { TokenizerError } from "../errors.js";
import type { WordRules } from "./word-splits.js";

/** One split of a pre-tokenizer: a hand-written one, or a pattern in one of the two alphabets. */
export type Split =
  | { readonly kind: "gpt2" }
  | ({ readonly kind: "words" } & WordRules)
  | { readonly kind: "kimi" }
  | { readonly kind: "digitGroups" }
  | { readonly kind: "thousands" }
  | { readonly kind: "lines" }
  | { readonly kind: "collapsed"; readonly pattern: string }
  | { readonly kind: "wide"; readonly pattern: string };

/** The rules of one name of `tokenizer.ggml.pre`. */
export interface PreTokenizer {
  readonly splits: readonly Split[];
  /** Whether a word that is a token is encoded as that token, whatever the merges say. */
  readonly ignoresMerges: boolean;
  /** Whether BOS is prepended unless the file says otherwise; `always` overrides the file. */
  readonly addsBos: boolean | "always";
  /** Whether a default id is assumed if the file names no BOS. */
  readonly hasDefaultBos: boolean;
  /** Whether tokens spell bytes in the GPT-2 alphabet; otherwise they are plain text with `▁` for a space. */
  readonly byteLevel: boolean;
  /** Whether the file may have no merges. */
  readonly mergesOptional: boolean;
  /** Whether a run of line feeds that is a token is encoded as that token. */
  readonly takesLineFeedsWhole: boolean;
}

const gpt2: Split = { kind: "gpt2" };
const words = (maxDigits: number, rules: Partial<WordRules> = {}): Split => ({
  kind: "words",
  maxDigits,
  marksAreLetters: false,
  halvesSpaces: false,
  ...rules,
});
const collapsed = (pattern: string): Split => ({ kind: "collapsed", pattern });
const wide = (pattern: string): Split => ({ kind: "wide", pattern });
const lines: Split = { kind: "lines" };
const digitGroups: Split = { kind: "digitGroups" };

const SPACE = "[\\t-\\r ]";
const NOT_SPACE = "[^\\t-\\r ]";
const TRAILING_SPACE = `${SPACE}+(?!${NOT_SPACE})|${SPACE}+`;
const CONTRACTION = "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])";
const LETTERS = "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+";
const OTHERS = " ?[^\\t-\\r \\p{L}\\p{N}]+";
const BREAKS = `${SPACE}*[\\r\\n]+`;
const ASCII_WORD = "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+";
const MARKED_LETTERS = "[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+";
const DEEPSEEK_CJK = "[\\u{4e00}-\\u{9fa5}\\u{800}-\\u{4e00}\\u{ac00}-\\u{d7ff}]+";
const HAN_AND_KANA = "[\\u{4e00}-\\u{9fa5}\\u{3040}-\\u{309f}\\u{30a0}-\\u{30ff}]+";
const BLOOM = " ?[^(\\t-\\r |.,!?\\u{2026}\\u{3002}\\u{ff0c}\\u{3001}\\u{964}\\u{6d4}\\u{60c})]+";

/** `upper` may come before a lower-case letter, `lower` may follow; the rest of the pattern is shared. */
function casedWords(upper: string, lower: string, contraction: string, digits: string): string {
  const lead = "[^\\r\\n\\p{L}\\p{N}]?";
  const word = `${lead}${upper}*${lower}+${contraction}|${lead}${upper}+${lower}*${contraction}`;
  return `${word}|${digits}|${OTHERS}[\\r\\n/]*|${BREAKS}|${TRAILING_SPACE}`;
}

const UPPER = "[\\xD2A-Z]";
const LOWER = "[\\xD2a-z]";
const ANY_CASE = "[\\p{L}\\p{M}]";

const DEEPSEEK_LLM_LETTERS =
  "A-Za-z\\u{b5}\\u{c0}-\\u{d6}\\u{d8}-\\u{f6}\\u{f8}-\\u{1ba}\\u{1bc}-\\u{1bf}\\u{1c4}-\\u{293}\\u{295}-\\u{2af}" +
  "\\u{370}-\\u{373}\\u{376}\\u{377}\\u{37b}-\\u{37d}\\u{37f}\\u{386}\\u{388}-\\u{38a}\\u{38c}\\u{38e}-\\u{3a1}" +
  "\\u{3a3}-\\u{3f5}\\u{3f7}-\\u{481}\\u{48a}-\\u{52f}\\u{531}-\\u{556}\\u{10a0}-\\u{10c5}\\u{13a0}-\\u{13f5}" +
  "\\u{13f8}-\\u{13fd}\\u{1c90}-\\u{1cba}\\u{1cbd}-\\u{1cbf}\\u{1d00}-\\u{1d2b}\\u{1d6b}-\\u{1d77}\\u{1d79}-\\u{1d9a}" +
  "\\u{1e00}-\\u{1f15}\\u{1f18}-\\u{1f1d}\\u{1f20}-\\u{1f45}\\u{1f48}-\\u{1f4d}\\u{1f50}-\\u{1f57}\\u{1f59}\\u{1f5b}" +
  "\\u{1f5d}\\u{1f5f}-\\u{1f7d}\\u{1f80}-\\u{1fb4}\\u{1fb6}-\\u{1fbc}\\u{1fbe}\\u{1fc2}-\\u{1fc4}\\u{1fc6}-\\u{1fcc}" +
  "\\u{1fd0}-\\u{1fd3}\\u{1fd6}-\\u{1fdb}\\u{1fe0}-\\u{1fec}\\u{1ff2}-\\u{1ff4}\\u{1ff6}-\\u{1ffc}\\u{2102}\\u{2107}" +
  "\\u{210a}-\\u{2113}\\u{2115}\\u{2119}-\\u{211d}\\u{2124}\\u{2126}\\u{2128}\\u{212a}-\\u{212d}\\u{212f}-\\u{2134}" +
  "\\u{2139}\\u{213c}-\\u{213f}\\u{2145}-\\u{2149}\\u{214e}\\u{2183}\\u{2184}\\u{2c00}-\\u{2c7b}\\u{2c7e}-\\u{2ce4}" +
  "\\u{2ceb}-\\u{2cee}\\u{2cf2}\\u{2cf3}\\u{a640}-\\u{a66d}\\u{a680}-\\u{a69b}\\u{a722}-\\u{a76f}\\u{a771}-\\u{a787}" +
  "\\u{a78b}-\\u{a78e}\\u{ab70}-\\u{abbf}\\u{fb00}-\\u{fb06}\\u{fb13}-\\u{fb17}\\u{ff21}-\\u{ff3a}\\u{ff41}-\\u{ff5a}" +
  "\\u{10400}-\\u{1044f}\\u{104b0}-\\u{104d3}\\u{104d8}-\\u{104fb}\\u{10c80}-\\u{10cb2}\\u{10cc0}-\\u{10cf2}" +
  "\\u{118a0}-\\u{118df}\\u{1e900}-\\u{1e943}";

const YOUTU_SCRIPTS =
  "[\\u{ac00}-\\u{d7a3}\\u{3131}-\\u{318e}]+|[\\u{ff01}\\u{2026}\\u{201c}\\u{201d}\\u{2018}\\u{2019}\\u{2014}\\u{ff1a}" +
  "\\u{ff1b}\\u{ff0c}\\u{3001}-\\u{303f}\\u{fe30}-\\u{fe4f}]+|[\\u{3105}-\\u{312f}]+|" +
  HAN_AND_KANA;

const AFMOE_SCRIPTS =
  "[\\u{4e00}-\\u{9fff}\\u{3400}-\\u{4dbf}\\u{8c48}-\\u{faff}\\u{3040}-\\u{309f}\\u{30a0}-\\u{30ff}\\u{ff65}-\\u{ff9f}" +
  "\\u{2f00}-\\u{2fdf}\\u{e40}-\\u{e7f}\\u{e80}-\\u{eff}\\u{1780}-\\u{17ff}\\u{1000}-\\u{109f}\\u{aa60}-\\u{aa7f}" +
  "\\u{a9e0}-\\u{a9ff}\\u{ac00}-\\u{d7af}\\u{1100}-\\u{11ff}]+";

const DEEPSEEK3_TAIL = collapsed(
  `${ASCII_WORD}|${MARKED_LETTERS}| ?[\\p{P}\\p{S}]+[\\r\\n]*|${BREAKS}|${TRAILING_SPACE}`,
);

const SPLITS = {
  default: [collapsed("[\\p{P}\\$\\+<=>\\^~\\|]+"), gpt2, collapsed("\\p{N}+"), wide("[0-9][0-9][0-9]")],
  gpt2: [gpt2],
  digitsThenGpt2: [collapsed("\\p{N}"), gpt2],
  llama3: [words(3)],
  qwen2: [words(1)],
  qwen35: [words(1, { marksAreLetters: true })],
  falcon: [collapsed("[\\p{P}\\$\\+<=>\\^~\\|`]+"), gpt2, wide("[0-9][0-9][0-9]")],
  deepseekLlm: [
    wide("[\\r\\n]"),
    wide(`${SPACE}?[${DEEPSEEK_LLM_LETTERS}]+`),
    wide(`${SPACE}?[!-\\/:-~\\u{ff01}-\\u{ff0f}\\u{ff1a}-\\u{ff5e}\\u{2018}-\\u{201f}\\u{3000}-\\u{3002}]+`),
    wide(`${SPACE}+$`),
    wide(DEEPSEEK_CJK),
    collapsed("\\p{N}+"),
  ],
  deepseekCoder: [
    wide("[\\r\\n]"),
    collapsed(`${SPACE}?\\p{L}+`),
    collapsed(`${SPACE}?\\p{P}+`),
    wide(DEEPSEEK_CJK),
    collapsed("\\p{N}"),
  ],
  deepseek3: [collapsed("\\p{N}{1,3}"), wide(HAN_AND_KANA), DEEPSEEK3_TAIL],
  spark: [
    collapsed("\\p{N}{1,3}"),
    wide(HAN_AND_KANA),
    collapsed(`${ASCII_WORD}|${MARKED_LETTERS}| ?[\\p{P}\\p{S}]+|[\\r\\n]|${TRAILING_SPACE}`),
    collapsed("\\p{N}"),
  ],
  youtu: [wide(YOUTU_SCRIPTS), collapsed(casedWords(ANY_CASE, ANY_CASE, `${CONTRACTION}?`, "\\p{N}"))],
  jais2: [words(3, { halvesSpaces: true })],
  bloom: [wide(BLOOM)],
  viking: [wide(BLOOM), collapsed("\\p{N}")],
  tekken: [collapsed(casedWords(UPPER, LOWER, "", "\\p{N}"))],
  gpt4o: [collapsed(casedWords(UPPER, LOWER, `${CONTRACTION}?`, "\\p{N}{1,3}"))],
  graniteEmbedding: [collapsed(casedWords("[\\xD2\\xD4A-Z]", "[\\xD2\\xD4a-z]", `${CONTRACTION}?`, "\\p{N}{1,3}"))],
  tinyAya: [digitGroups, collapsed(casedWords(ANY_CASE, ANY_CASE, `${CONTRACTION}?`, "\\p{N}{1,3}"))],
  chameleon: [
    wide("<sentinel:[0-9]+>"),
    wide("IMGIMG[A-I]{1,4}Z"),
    wide("[\\t\\n]|    |  "),
    collapsed("\\p{N}"),
    collapsed("[\\p{P}!-\\/:-@\\[-`{-~]"),
    gpt2,
  ],
  kimi: [{ kind: "kimi" }],
  superBpe: [collapsed("\\p{N}+"), { kind: "thousands" }],
  bailing: [
    collapsed(
      `'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|${LETTERS}|\\p{N}|${OTHERS}[\\r\\n]*|${SPACE}*[\\r\\n]|${TRAILING_SPACE}`,
    ),
  ],
  seedCoder: [collapsed(`${CONTRACTION}|${LETTERS}|\\p{N}|${OTHERS}|${BREAKS}|${TRAILING_SPACE}`)],
  ufakzeka: [collapsed(`${LETTERS}|\\p{N}|${OTHERS}[\\r\\n]*|${BREAKS}|${TRAILING_SPACE}`)],
  afmoe: [digitGroups, wide(AFMOE_SCRIPTS), DEEPSEEK3_TAIL],
  laguna: [lines, words(1)],
  exaoneMoe: [
    collapsed(
      `${CONTRACTION}|[^\\r\\n\\p{L}\\p{N}]?\\p{L}(?:[\\p{L}\\p{M}]| \\p{L})*|\\p{N}|${OTHERS}[\\r\\n/]?|` +
        `${SPACE}*[\\r\\n]|${TRAILING_SPACE}`,
    ),
  ],
  minicpm5: [
    collapsed("\\p{N}{1,3}"),
    collapsed(`${CONTRACTION}|${LETTERS}|\\p{N}+|${OTHERS}[\\r\\n]*|${BREAKS}|${TRAILING_SPACE}`),
  ],
  lines: [lines],
} as const satisfies Record<string, readonly Split[]>;

function define(splits: keyof typeof SPLITS, changes: Partial<PreTokenizer> = {}): PreTokenizer {
  return {
    splits: SPLITS[splits],
    ignoresMerges: false,
    addsBos: false,
    hasDefaultBos: true,
    byteLevel: true,
    mergesOptional: false,
    takesLineFeedsWhole: false,
    ...changes,
  };
}

const GPT2 = define("gpt2");
const LLAMA3 = define("llama3", { ignoresMerges: true, addsBos: true });
const QWEN2 = define("qwen2");
const DIGITS_THEN_GPT2 = define("digitsThenGpt2");
const DEEPSEEK3 = define("deepseek3");
const GPT4O = define("gpt4o");
const BAILING = define("bailing");
const CHATGLM = define("llama3", { hasDefaultBos: false });
const GEMMA4 = define("lines", { byteLevel: false, addsBos: "always", takesLineFeedsWhole: true });

const PRE_TOKENIZERS: ReadonlyMap<string, PreTokenizer> = new Map<string, PreTokenizer>([
  ["default", define("default")],
  ...alias(GPT2, "gpt-2", "phi-2", "jina-es", "jina-de", "jina-v1-en", "jina-v2-es", "jina-v2-de", "jina-v2-code"),
  ...alias(GPT2, "roberta-bpe", "gigachat", "a.x-4.0", "mellum", "modern-bert", "exaone4"),
  ...alias(GPT2, "mpt", "olmo", "jais", "trillion", "granite-docling"),
  ...alias(
    LLAMA3,
    "llama-bpe",
    "llama3",
    "llama-v3",
    "falcon3",
    "falcon-h1",
    "pixtral",
    "midm-2.0",
    "lfm2",
    "jina-v5-nano",
  ),
  ...alias(define("llama3"), "dbrx", "smaug-bpe"),
  ...alias(CHATGLM, "chatglm-bpe", "glm4"),
  ...alias(
    QWEN2,
    "qwen2",
    "deepseek-r1-qwen",
    "kormo",
    "f2llmv2",
    "megrez",
    "stablelm2",
    "hunyuan",
    "solar-open",
    "grok-2",
  ),
  ["qwen35", define("qwen35")],
  ["deepseek-llm", define("deepseekLlm")],
  ["deepseek-coder", define("deepseekCoder")],
  ...alias(DEEPSEEK3, "deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"),
  ["spark2_5", define("spark")],
  ["youtu", define("youtu", { ignoresMerges: true })],
  ["falcon", define("falcon")],
  ...alias(
    DIGITS_THEN_GPT2,
    "starcoder",
    "refact",
    "command-r",
    "smollm",
    "codeshell",
    "exaone",
    "minerva-7b",
    "mellum2",
  ),
  ["jais-2", define("jais2")],
  ...alias(define("bloom"), "bloom", "poro-chat", "gpt3-finnish"),
  ["viking", define("viking")],
  ["tekken", define("tekken", { ignoresMerges: true, addsBos: true })],
  ...alias(GPT4O, "gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"),
  ["granite-embed-multi-97m", define("graniteEmbedding", { ignoresMerges: true })],
  ...alias(define("tinyAya"), "tiny_aya", "cohere2moe"),
  ["chameleon", define("chameleon", { addsBos: true })],
  ["kimi-k2", define("kimi", { mergesOptional: true })],
  ["superbpe", define("superBpe")],
  ...alias(BAILING, "bailingmoe", "bailingmoe2", "llada-moe"),
  ["seed-coder", define("seedCoder")],
  ["ufakzeka", define("ufakzeka")],
  ["afmoe", define("afmoe")],
  ["laguna", define("laguna")],
  ["exaone-moe", define("exaoneMoe")],
  ["minicpm5", define("minicpm5", { ignoresMerges: true })],
  ...alias(GEMMA4, "gemma4", "granite-embed-multi-311m"),
  ["sarvam-moe", define("lines", { byteLevel: false })],
]);

function alias(preTokenizer: PreTokenizer, ...names: string[]): [string, PreTokenizer][] {
  return names.map((name) => [name, preTokenizer]);
}

/** The known names of `tokenizer.ggml.pre`. */
export const PRE_TOKENIZER_NAMES: readonly string[] = [...PRE_TOKENIZERS.keys()];

/** The pre-tokenizer of a name; throws TOKENIZER_MODEL if it is unknown. */
export function preTokenizerByName(name: string): PreTokenizer {
  const found = PRE_TOKENIZERS.get(name);
  if (found !== undefined) return found;
  const shown = JSON.stringify(name.length > 64 ? `${name.slice(0, 64)}…` : name);
  throw new TokenizerError(
    "TOKENIZER_MODEL",
    `[tokenizer] tokenizer.ggml.pre: ${shown} is not a known pre-tokenizer; known are ${PRE_TOKENIZER_NAMES.join(", ")}`,
    { details: { field: "tokenizer.ggml.pre", found: name, supported: PRE_TOKENIZER_NAMES } },
  );
}
