// The tokens with a role, such as BOS and end-of-sequence: the ids that the file names, and the texts by which
// llama.cpp recognises them if it does not. Invariants: every id is within the vocabulary; a token recognised by its
// text becomes a control token, whatever type the file gives it, unless a family of models uses it as text.

import type { GgufMetadata } from "../gguf/metadata.js";
import { complaint, FLAG_KEYS, flagValue, SPECIAL_ID_KEYS, specialId, textValue } from "./tokenizer-metadata.js";
import { TokenAttribute, type Vocabulary } from "./vocabulary.js";

const END_TEXTS = [
  "<|eot_id|>",
  "<|im_end|>",
  "<|end|>",
  "<|return|>",
  "<|call|>",
  "<|flush|>",
  "<|calls|>",
  "<end_of_turn>",
  "<|endoftext|>",
  "</s>",
  "<|eom_id|>",
  "<EOT>",
  "_<EOT>",
  "[EOT]",
  "[EOS]",
  "<|end_of_text|>",
  "<end_of_utterance>",
  "<eos>",
  "<turn|>",
  "<|tool_response>",
  "<｜end▁of▁sentence｜>",
  "[e~[",
] as const;

// From each list, the first token in the vocabulary has the role, unless the file names one.
const FILL_PAD_TEXTS = ["<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"];
const FILL_REPOSITORY_TEXTS = ["<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"];
const FILL_SEPARATOR_TEXTS = ["<|file_sep|>"];
const FILL_MARKER_TEXTS: readonly (readonly [keys: readonly string[], texts: readonly string[]])[] = [
  [
    ["tokenizer.ggml.fim_pre_token_id", "tokenizer.ggml.prefix_token_id"],
    [
      "<|fim_prefix|>",
      "<fim-prefix>",
      "<fim_prefix>",
      "<｜fim▁begin｜>",
      "<PRE>",
      "▁<PRE>",
      "<|code_prefix|>",
      "<|prefix|>",
    ],
  ],
  [
    ["tokenizer.ggml.fim_suf_token_id", "tokenizer.ggml.suffix_token_id"],
    [
      "<|fim_suffix|>",
      "<fim-suffix>",
      "<fim_suffix>",
      "<｜fim▁hole｜>",
      "<SUF>",
      "▁<SUF>",
      "<|code_suffix|>",
      "<|suffix|>",
    ],
  ],
  [
    ["tokenizer.ggml.fim_mid_token_id", "tokenizer.ggml.middle_token_id"],
    [
      "<|fim_middle|>",
      "<fim-middle>",
      "<fim_middle>",
      "<｜fim▁end｜>",
      "<MID>",
      "▁<MID>",
      "<|code_middle|>",
      "<|middle|>",
    ],
  ],
];
/** Harmony's structure is part of the model's output, so it is printed. */
const PRINTED_TEXTS = ["<|channel|>", "<|message|>", "<|start|>", "<|constrain|>"];

/**
 * How model families spell the marks of turns. Other text that files call user-defined, such as `<think>` or runs of
 * spaces, is text.
 */
const CONTROL_SPELLING = /^(?:<\|.*\|>|<\|\S+>|<\S+\|>|<｜.*｜>|<(?:start|end)_of_turn>)$/s;

/** The ids that are assumed if the file names none. */
interface RoleDefaults {
  readonly bos: number | undefined;
  readonly eos: number | undefined;
  readonly unknown: number | undefined;
  readonly addsBos: boolean | "always";
}

/** The ids of the tokens that have a role. */
export interface TokenRoles {
  readonly bos: number | undefined;
  readonly eos: number | undefined;
  readonly unknown: number | undefined;
  readonly addsBos: boolean;
  readonly addsEos: boolean;
  readonly endOfGeneration: ReadonlySet<number>;
}

/** Finds the tokens that have a role and corrects their attributes. */
export function assignRoles(metadata: GgufMetadata, vocabulary: Vocabulary, defaults: RoleDefaults): TokenRoles {
  const named = (name: keyof typeof SPECIAL_ID_KEYS, fallback?: number): number | undefined =>
    specialId(metadata, name, vocabulary.size) ??
    (fallback !== undefined && fallback < vocabulary.size ? fallback : undefined);
  const bos = named("bos", defaults.bos);
  const eos = named("eos", defaults.eos);
  const roles: TokenRoles = {
    bos,
    eos,
    unknown: named("unknown", defaults.unknown),
    addsBos: defaults.addsBos === "always" || (flagValue(metadata, FLAG_KEYS.addsBos) ?? defaults.addsBos),
    addsEos: flagValue(metadata, FLAG_KEYS.addsEos) ?? false,
    endOfGeneration: endOfGeneration(
      vocabulary,
      [eos, named("eot"), named("eom")],
      [
        named("fillPad") ?? markControl(vocabulary, FILL_PAD_TEXTS),
        named("fillRepository") ?? markControl(vocabulary, FILL_REPOSITORY_TEXTS),
        named("fillSeparator") ?? markControl(vocabulary, FILL_SEPARATOR_TEXTS),
      ],
    ),
  };
  for (const [keys, texts] of FILL_MARKER_TEXTS)
    if (!keys.some((key) => metadata.has(key))) markControl(vocabulary, texts);
  if (roles.addsBos && bos === undefined)
    throw complaint(SPECIAL_ID_KEYS.bos, "an id, because BOS is added to prompts", "nothing");
  if (roles.addsEos && eos === undefined)
    throw complaint(SPECIAL_ID_KEYS.eos, "an id, because EOS is added to prompts", "nothing");
  return roles;
}

function endOfGeneration(
  vocabulary: Vocabulary,
  named: readonly (number | undefined)[],
  fill: readonly (number | undefined)[],
): ReadonlySet<number> {
  const ends = new Map<string, number>();
  for (const endText of END_TEXTS) {
    const id = markControl(vocabulary, [endText]);
    if (id !== undefined) ends.set(endText, id);
  }
  for (const printed of PRINTED_TEXTS) {
    const id = vocabulary.findText(printed);
    if (id >= 0) vocabulary.attributes[id] = TokenAttribute.userDefined;
  }
  const ids = new Set<number>(ends.values());
  for (const id of [...named, ...fill]) if (id !== undefined) ids.add(id);
  // If a model has its own token for the end of a turn, the token that ends a part of a turn does not end the
  // generation.
  const partEnd = ends.get("<|end|>");
  const turnEnds =
    (ends.has("<|return|>") && (ends.has("<|call|>") || ends.has("<|calls|>"))) ||
    (ends.has("<|flush|>") && (ends.has("<|call|>") || ends.has("<|calls|>")));
  if (partEnd !== undefined && turnEnds) {
    ids.delete(partEnd);
    vocabulary.attributes[partEnd] = TokenAttribute.userDefined;
  }
  const strikeOut = ends.get("</s>");
  if (strikeOut !== undefined && ends.has("<|tool_response>")) {
    ids.delete(strikeOut);
    vocabulary.attributes[strikeOut] = TokenAttribute.normal;
  }
  return ids;
}

function markControl(vocabulary: Vocabulary, texts: readonly string[]): number | undefined {
  for (const candidate of texts) {
    const id = vocabulary.findText(candidate);
    if (id < 0) continue;
    vocabulary.attributes[id] = (vocabulary.attributes[id] as number) | TokenAttribute.control;
    return id;
  }
  return undefined;
}

/**
 * Guards control tokens against text that only looks like them. A token that the file declares as text, or that was
 * made printable above, is guarded as well if it is spelled like a control token.
 */
export function guardControlTokens(vocabulary: Vocabulary): void {
  for (let id = 0; id < vocabulary.size; id++) {
    const isControl = vocabulary.has(id, TokenAttribute.control | TokenAttribute.unknown);
    if (!isControl && !(vocabulary.has(id, TokenAttribute.userDefined) && CONTROL_SPELLING.test(vocabulary.text(id))))
      continue;
    vocabulary.attributes[id] = (vocabulary.attributes[id] as number) | TokenAttribute.guarded;
  }
}

/**
 * Sets whether tokens strip adjacent white space in the input; files do not say, so llama.cpp goes by the model's name.
 */
export function assignStripping(metadata: GgufMetadata, vocabulary: Vocabulary, specials: Iterable<number>): void {
  const name = (textValue(metadata, "general.name") ?? "").toLowerCase();
  const preTokenizer = textValue(metadata, "tokenizer.ggml.pre") ?? "";
  const architecture = textValue(metadata, "general.architecture") ?? "";
  const set = (id: number, attribute: number, on: boolean): void => {
    if (id < 0) return;
    const current = vocabulary.attributes[id] as number;
    vocabulary.attributes[id] = on ? current | attribute : current & ~attribute;
  };
  if (/jina-v2-(?:de|es|code)/.test(preTokenizer) || /nomic-bert-moe|jina-bert-v3/.test(architecture)) {
    set(vocabulary.findText("<mask>"), TokenAttribute.stripsLeft, true);
  } else if (name.includes("phi-3") || name.includes("phi3")) {
    for (const id of specials) set(id, TokenAttribute.stripsRight, true);
    set(vocabulary.findText("</s>"), TokenAttribute.stripsRight, true);
    for (const plain of ["<unk>", "<s>", "<|endoftext|>"])
      set(vocabulary.findText(plain), TokenAttribute.stripsRight, false);
  } else if (name.includes("modern-bert")) {
    set(vocabulary.findText("[MASK]"), TokenAttribute.stripsLeft, true);
  }
}
