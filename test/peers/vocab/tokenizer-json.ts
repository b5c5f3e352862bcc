// A Hugging Face tokenizer.json of a byte-level BPE vocabulary as the GGUF metadata that llama.cpp's converter
// would write for it. Test code only: the product reads GGUF.

import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { GgufMetadata, type GgufEntry } from "../../../src/gguf/metadata.js";
import { arr, str, u32 } from "../../../src/gguf/entry.js";

interface TokenizerJson {
  readonly model: {
    readonly vocab: Readonly<Record<string, number>>;
    readonly merges: readonly (string | readonly [string, string])[];
  };
  readonly added_tokens: readonly { readonly id: number; readonly content: string; readonly special: boolean }[];
}

const TYPE_NORMAL = 1;
const TYPE_CONTROL = 3;
const TYPE_USER_DEFINED = 4;
const TYPE_UNUSED = 5;

/** The tokenizer.json of an installed vocabulary package, or undefined where it is not installed. */
export function vocabularyPackage(name: string, folder: URL = new URL("./", import.meta.url)): string | undefined {
  const path = fileURLToPath(new URL(`node_modules/${name}/models/tokenizer.json`, folder));
  return existsSync(path) ? path : undefined;
}

/** `specials` names ids by text: `{ bos: "<|begin_of_text|>" }`. */
export function entriesOfTokenizerJson(
  path: string,
  preTokenizer: string,
  specials: Readonly<Record<string, string>>,
): GgufEntry[] {
  const json = JSON.parse(readFileSync(path, "utf8")) as TokenizerJson;
  const ids = new Map(Object.entries(json.model.vocab));
  const types = new Map<number, number>();
  for (const { id, content, special } of json.added_tokens) {
    ids.set(content, id);
    types.set(id, special ? TYPE_CONTROL : TYPE_USER_DEFINED);
  }
  const size = [...ids.values()].reduce((largest, id) => Math.max(largest, id), 0) + 1;
  const tokens = Array.from({ length: size }, (_, id) => `[PAD${id}]`);
  const kinds = Array.from({ length: size }, () => TYPE_UNUSED);
  for (const [token, id] of ids) {
    tokens[id] = token;
    kinds[id] = types.get(id) ?? TYPE_NORMAL;
  }
  return [
    str("general.architecture", "llama"),
    str("tokenizer.ggml.model", "gpt2"),
    str("tokenizer.ggml.pre", preTokenizer),
    arr("tokenizer.ggml.tokens", "string", tokens),
    arr("tokenizer.ggml.token_type", "int32", kinds),
    arr(
      "tokenizer.ggml.merges",
      "string",
      json.model.merges.map((merge) => (typeof merge === "string" ? merge : merge.join(" "))),
    ),
    ...Object.entries(specials).map(([name, token]) => u32(`tokenizer.ggml.${name}_token_id`, ids.get(token) ?? 0)),
  ];
}

export function metadataOfTokenizerJson(
  path: string,
  preTokenizer: string,
  specials: Readonly<Record<string, string>> = {},
): GgufMetadata {
  return new GgufMetadata(entriesOfTokenizerJson(path, preTokenizer, specials));
}
