// The tokenizer's keys in a GGUF header. Invariants: arrays are checked for type and length before any element is read;
// every error is a GgufError GGUF_TOKENIZER that names the field. Source: the GGUF specification, and llama.cpp for the
// defaults.

import { GgufError } from "../errors.js";
import type { GgufArray } from "../gguf/array.js";
import type { GgufMetadata } from "../gguf/metadata.js";
import type { GgufValueType } from "../gguf/value.js";
import { MERGES_KEY } from "./merge-table.js";

/** The metadata key of the tokenizer's kind. */
export const MODEL_KEY = "tokenizer.ggml.model";
/** The metadata key of the pre-tokenizer's name. */
export const PRE_TOKENIZER_KEY = "tokenizer.ggml.pre";
/** The metadata key of the tokens' texts. */
export const TOKENS_KEY = "tokenizer.ggml.tokens";
const SCORES_KEY = "tokenizer.ggml.scores";
const TYPES_KEY = "tokenizer.ggml.token_type";
const SUPPRESSED_KEY = "tokenizer.ggml.suppress_tokens";

/** The token ids that this package uses, by the key's spelling in the file. */
export const SPECIAL_ID_KEYS = {
  bos: "tokenizer.ggml.bos_token_id",
  eos: "tokenizer.ggml.eos_token_id",
  eot: "tokenizer.ggml.eot_token_id",
  eom: "tokenizer.ggml.eom_token_id",
  unknown: "tokenizer.ggml.unknown_token_id",
  fillPad: "tokenizer.ggml.fim_pad_token_id",
  fillRepository: "tokenizer.ggml.fim_rep_token_id",
  fillSeparator: "tokenizer.ggml.fim_sep_token_id",
} as const;

/** The name of a token with a role, such as BOS. */
type SpecialIdName = keyof typeof SPECIAL_ID_KEYS;

/** The bool keys that change how text is encoded. */
export const FLAG_KEYS = {
  addsBos: "tokenizer.ggml.add_bos_token",
  addsEos: "tokenizer.ggml.add_eos_token",
  addsSpacePrefix: "tokenizer.ggml.add_space_prefix",
} as const;

/** The arrays of a file's vocabulary, none of them decoded. */
export interface TokenizerArrays {
  readonly tokens: GgufArray;
  readonly scores: GgufArray | undefined;
  readonly types: GgufArray | undefined;
  readonly merges: GgufArray | undefined;
}

/** The arrays, with types and lengths checked and no element read; undefined if the file has no vocabulary. */
export function tokenizerArrays(metadata: GgufMetadata): TokenizerArrays | undefined {
  const tokens = typedArray(metadata, TOKENS_KEY, ["string"]);
  const scores = typedArray(metadata, SCORES_KEY, ["float32", "float64", "int32"]);
  const types = typedArray(metadata, TYPES_KEY, ["int32", "uint32", "int8", "uint8"]);
  const merges = typedArray(metadata, MERGES_KEY, ["string"]);
  if (tokens === undefined) {
    if (scores === undefined && types === undefined && merges === undefined) return undefined;
    throw complaint(TOKENS_KEY, "array of string", "nothing");
  }
  for (const [key, array] of [
    [SCORES_KEY, scores],
    [TYPES_KEY, types],
  ] as const) {
    if (array === undefined || array.length === tokens.length) continue;
    throw complaint(key, `${tokens.length} elements, one for each of ${TOKENS_KEY}`, `${array.length} elements`);
  }
  return { tokens, scores, types, merges };
}

/** An id that the file names, checked against the vocabulary. */
export function specialId(metadata: GgufMetadata, name: SpecialIdName, vocabularySize: number): number | undefined {
  const key = SPECIAL_ID_KEYS[name];
  const id = metadata.get(key);
  if (id === undefined) return undefined;
  if (typeof id === "number" && Number.isInteger(id) && id >= 0 && id < vocabularySize) return id;
  throw complaint(key, `an id below ${vocabularySize}`, describe(metadata, key));
}

/**
 * The tokens that the file says are never to be chosen, ascending. As in llama.cpp, ids outside the vocabulary have no
 * effect. A list that is longer than the vocabulary, or that leaves no token, is refused.
 */
export function suppressedTokens(metadata: GgufMetadata): Int32Array {
  const listed = typedArray(metadata, SUPPRESSED_KEY, ["int32", "uint32"]);
  const tokens = typedArray(metadata, TOKENS_KEY, ["string"]);
  if (listed === undefined || tokens === undefined) return new Int32Array();
  const { length } = tokens;
  if (listed.length > length)
    throw complaint(SUPPRESSED_KEY, `at most ${length} ids, as many as there are tokens`, `${listed.length} ids`);
  const ids = new Set(listed.toNumbers().filter((id) => id >= 0 && id < length));
  if (ids.size === length && length > 0)
    throw complaint(SUPPRESSED_KEY, "at least one token that may be chosen", `all ${length} of them`);
  return Int32Array.from(ids).sort();
}

/** A bool of the metadata; undefined if the key is missing. */
export function flagValue(metadata: GgufMetadata, key: string): boolean | undefined {
  const value = metadata.get(key);
  if (value === undefined || typeof value === "boolean") return value;
  throw complaint(key, "bool", describe(metadata, key));
}

/** A string of the metadata; undefined if the key is missing. */
export function textValue(metadata: GgufMetadata, key: string): string | undefined {
  const value = metadata.get(key);
  if (value === undefined || typeof value === "string") return value;
  throw complaint(key, "string", describe(metadata, key));
}

/** Whether the file has a vocabulary at all, of a supported kind or not. */
export function hasTokenizer(metadata: GgufMetadata): boolean {
  return metadata.has(TOKENS_KEY);
}

/**
 * Checks a file's tokenizer without decoding a string: types, lengths and ids. A file without a tokenizer passes; so
 * does one of an unsupported kind, because its tensors may still be useful.
 */
export function checkTokenizerMetadata(metadata: GgufMetadata): void {
  textValue(metadata, MODEL_KEY);
  textValue(metadata, PRE_TOKENIZER_KEY);
  for (const key of Object.values(FLAG_KEYS)) flagValue(metadata, key);
  const arrays = tokenizerArrays(metadata);
  if (arrays === undefined) return;
  for (const name of Object.keys(SPECIAL_ID_KEYS) as SpecialIdName[]) specialId(metadata, name, arrays.tokens.length);
  suppressedTokens(metadata);
}

/** The error for an invalid field of the tokenizer's metadata. */
export function complaint(field: string, expected: string, found: string): GgufError {
  return new GgufError("GGUF_TOKENIZER", { field, expected, found });
}

function typedArray(metadata: GgufMetadata, key: string, types: readonly GgufValueType[]): GgufArray | undefined {
  const value = metadata.get(key);
  if (value === undefined) return undefined;
  if (typeof value === "object" && types.includes(value.elementType)) return value;
  throw complaint(key, `array of ${types.join(" or ")}`, describe(metadata, key));
}

function describe(metadata: GgufMetadata, key: string): string {
  const value = metadata.get(key);
  if (value === undefined) return "nothing";
  if (typeof value === "object") return `array of ${value.elementType}`;
  return `${metadata.typeOf(key)} ${String(value).slice(0, 64)}`;
}
