// A model of a family as far as chats need one: a real tokenizer whose vocabulary spells every byte, has the family's
// control tokens, and merges that lead towards them.

import type { ChatModel } from "../../../src/chat/chat-renderer.js";
import { arr, bool, str, u32 } from "../../../src/gguf/entry.js";
import { GgufMetadata } from "../../../src/gguf/metadata.js";
import { SPELLING_OF_BYTE } from "../../../src/tokenizer/byte-level.js";
import { createTokenizer, type Tokenizer } from "../../../src/tokenizer/tokenizer.js";
import { controlsOf, type Family } from "./family-templates.js";

export interface FamilyModel extends ChatModel {
  readonly tokenizer: Tokenizer;
  /** Ids of control tokens are below it. */
  readonly controls: number;
}

const CONTROL = 3;
const NORMAL = 1;
const BYTE = 6;

const spelled = (text: string): string =>
  Array.from(Buffer.from(text), (byte) => SPELLING_OF_BYTE[byte].toString()).join("");

/** Merges that would make each control token out of its text, character by character. */
function mergesTo(token: string): string[] {
  const characters = [...spelled(token)];
  return characters.slice(1).map((character, at) => `${characters.slice(0, at + 1).join("")} ${character}`);
}

function bpeEntries(controls: readonly string[]) {
  const plain = [
    ...SPELLING_OF_BYTE.map(String),
    "he",
    "Ġw",
    ...controls.flatMap((token) =>
      mergesTo(token)
        .slice(0, -1)
        .map((merge) => merge.replace(" ", "")),
    ),
  ];
  const tokens = [...controls, ...new Set(plain)];
  return [
    str("tokenizer.ggml.model", "gpt2"),
    str("tokenizer.ggml.pre", "gpt-2"),
    arr("tokenizer.ggml.tokens", "string", tokens),
    arr(
      "tokenizer.ggml.token_type",
      "int32",
      tokens.map((_, id) => (id < controls.length ? CONTROL : NORMAL)),
    ),
    arr("tokenizer.ggml.merges", "string", ["h e", "Ġ w", ...new Set(controls.flatMap(mergesTo))]),
  ];
}

function spmEntries(controls: readonly string[]) {
  const bytes = Array.from({ length: 256 }, (_, byte) => `<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`);
  const letters = Array.from({ length: 94 }, (_, at) => String.fromCharCode(33 + at));
  // Beginnings of control tokens, so that characters merge up to the last step.
  const beginnings = controls.flatMap((token) =>
    Array.from({ length: token.length - 2 }, (_, at) => token.slice(0, at + 2)),
  );
  const tokens = [...controls, ...bytes, ...new Set(["▁", ...letters, "he", "▁he", ...beginnings])];
  const typeOf = (id: number): number => (id < controls.length ? CONTROL : id < controls.length + 256 ? BYTE : NORMAL);
  return [
    str("tokenizer.ggml.model", "llama"),
    arr("tokenizer.ggml.tokens", "string", tokens),
    arr(
      "tokenizer.ggml.token_type",
      "int32",
      tokens.map((_, id) => typeOf(id)),
    ),
    arr(
      "tokenizer.ggml.scores",
      "float32",
      tokens.map((text) => -text.length),
    ),
  ];
}

export function familyModel(family: Family): FamilyModel {
  const { vocabulary, template } = family;
  const all = controlsOf(family);
  const entries = vocabulary === "bpe" ? bpeEntries(all) : spmEntries(all);
  const tokenizer = createTokenizer(
    new GgufMetadata([
      ...entries,
      u32("tokenizer.ggml.bos_token_id", 0),
      u32("tokenizer.ggml.eos_token_id", 1),
      bool("tokenizer.ggml.add_bos_token", true),
    ]),
  );
  return { tokenizer, controls: all.length, chatTemplates: { default: template, toolUse: undefined } };
}

/** The text of tokens, control tokens in their own spelling; each run of text has SentencePiece's space in front. */
export function written({ tokenizer, controls }: FamilyModel, tokens: Iterable<number>): string {
  let [text, plain] = ["", [] as number[]];
  for (const token of [...tokens, 0]) {
    if (token >= controls) {
      plain.push(token);
      continue;
    }
    text += tokenizer.decode(plain) + tokenizer.tokenText(token);
    plain = [];
  }
  return text.slice(0, -tokenizer.tokenText(0).length);
}
