// Text to tokens and back, by the vocabulary of a GGUF file. Invariants: synchronous; ids equal llama.cpp's for the
// same file and text; the file is untrusted, so every id is checked. Encoding differs from llama.cpp if text would
// become a control token unintentionally, by its spelling or by merges. Decoding differs from llama.cpp if a text would
// not round-trip: byte-level text loses no space, before punctuation or in front, and SentencePiece's added space is
// removed also after a BOS that is not printed.

import { TokenizerError } from "../errors.js";
import type { GgufMetadata } from "../gguf/metadata.js";
import { optionalFlag, refuseUnknownKeys, refuseValue } from "../options.js";
import { BpeEncoder } from "./bpe-encoder.js";
import { unspellBytes } from "./byte-level.js";
import {
  type EncodeInput,
  type EncodeOptions,
  joinSegments,
  type SegmentsOptions,
  type TextSegment,
  wholeText,
} from "./encode-input.js";
import { unescapeSpaces } from "./escaped-space.js";
import { MERGES_KEY, MergeTable } from "./merge-table.js";
import { type PrebuiltVocabulary, usableVocabulary } from "./prebuilt-vocabulary.js";
import { type PreTokenizer, preTokenizerByName } from "./pre-tokenizers.js";
import { SpecialTokens } from "./special-tokens.js";
import { SpmEncoder } from "./spm-encoder.js";
import { StreamDecoder } from "./stream-decoder.js";
import { TokenBuffer } from "./token-buffer.js";
import { assignRoles, assignStripping, guardControlTokens, type TokenRoles } from "./token-roles.js";
import {
  complaint,
  FLAG_KEYS,
  flagValue,
  MODEL_KEY,
  PRE_TOKENIZER_KEY,
  textValue,
  tokenizerArrays,
  TOKENS_KEY,
} from "./tokenizer-metadata.js";
import { TokenAttribute, Vocabulary } from "./vocabulary.js";

export { checkTokenizerMetadata, hasTokenizer, suppressedTokens } from "./tokenizer-metadata.js";
export type { EncodeOptions, SegmentsOptions, TextSegment } from "./encode-input.js";
export type { StreamDecoder } from "./stream-decoder.js";

/** How tokens are decoded. */
export interface DecodeOptions {
  /** Prints the text of control tokens. Default false. */
  readonly special?: boolean;
}

/** How a stream of tokens is decoded. */
export interface StreamDecodeOptions extends DecodeOptions {
  /** Whether the tokens continue earlier text, so that the first one keeps its leading space. Default false. */
  readonly continuation?: boolean;
}

/** Encodes text to token ids and decodes them again, by the vocabulary of a GGUF file. */
export interface Tokenizer {
  readonly vocabularySize: number;
  /** The length in bytes of the longest token. */
  readonly longestTokenBytes: number;
  readonly model: "bpe" | "spm";
  /** The name of the pre-tokenizer in `tokenizer.ggml.pre`. */
  readonly preTokenizer: string;
  readonly bosToken: number | undefined;
  readonly eosToken: number | undefined;
  readonly addsBos: boolean;
  readonly addsEos: boolean;
  /** The tokens at which generation stops. */
  readonly endOfGeneration: ReadonlySet<number>;
  /** Encodes a text; lone surrogates become U+FFFD. */
  encode(text: string, options?: EncodeOptions): Int32Array;
  /** Encodes segments as one text; special tokens are parsed only in segments that allow it. */
  encodeSegments(segments: readonly TextSegment[], options?: SegmentsOptions): Int32Array;
  decode(ids: Iterable<number>, options?: DecodeOptions): string;
  /** The token's text as the file stores it, for display. */
  tokenText(id: number): string;
  /** The bytes that the token represents; none for a control token unless `special`. */
  tokenBytes(id: number, special?: boolean): Uint8Array;
  createDecoder(options?: StreamDecodeOptions): StreamDecoder;
}

const SEGMENTS_OPTIONS = ["addSpecial"] as const satisfies readonly (keyof SegmentsOptions)[];
const ENCODE_OPTIONS = [...SEGMENTS_OPTIONS, "parseSpecial"] as const satisfies readonly (keyof EncodeOptions)[];
const DECODE_OPTIONS = ["special"] as const satisfies readonly (keyof DecodeOptions)[];
const STREAM_DECODE_OPTIONS = [
  ...DECODE_OPTIONS,
  "continuation",
] as const satisfies readonly (keyof StreamDecodeOptions)[];

const MODELS = { gpt2: "bpe", gemma4: "bpe", llama: "spm" } as const;
/** The ids that llama.cpp assumes if the file names none. */
const BPE_DEFAULT_ID = 11;
const SPM_DEFAULT_IDS = { bos: 1, eos: 2, unknown: 0 } as const;
const GEMMA4 = "gemma4";
const UNPRINTED = TokenAttribute.unknown | TokenAttribute.control;

/** Builds the tokenizer of a file's metadata; throws if it is missing, invalid or not supported. */
export function createTokenizer(metadata: GgufMetadata): Tokenizer {
  const turns = tokenizerTurns(metadata);
  for (;;) {
    const { done, value } = turns.next();
    if (done === true) return value;
  }
}

/**
 * Builds the tokenizer; yields at intervals, so that the caller can do other work. `given` is asked for tables at the
 * first turn, and the metadata's arrays are read only if there are none.
 */
export function* tokenizerTurns(
  metadata: GgufMetadata,
  given: () => PrebuiltVocabulary | undefined = () => undefined,
): Generator<void, Tokenizer, undefined> {
  const family = textValue(metadata, MODEL_KEY);
  if (family === undefined) throw complaint(MODEL_KEY, "string", "nothing");
  if (!isSupportedModel(family)) throw unsupportedModel(family);
  const arrays = tokenizerArrays(metadata);
  if (arrays === undefined || arrays.tokens.length === 0)
    throw complaint(TOKENS_KEY, "a non-empty array of string", "nothing");
  const model = MODELS[family];
  const preTokenizerName =
    model === "spm" ? "default" : family === GEMMA4 ? GEMMA4 : textValue(metadata, PRE_TOKENIZER_KEY) || "default";
  const preTokenizer = preTokenizerByName(preTokenizerName);

  const prebuilt = usableVocabulary(arrays, given());
  const vocabulary =
    prebuilt === undefined
      ? yield* Vocabulary.read(arrays.tokens, arrays.types?.toNumbers(), arrays.scores?.toNumbers())
      : Vocabulary.of(prebuilt.vocabulary);
  const roles = assignRoles(metadata, vocabulary, defaultsOf(family, preTokenizer));
  guardControlTokens(vocabulary);
  const specials = new SpecialTokens(vocabulary);
  assignStripping(metadata, vocabulary, specials.ids);
  const spacePrefix = model === "spm" && (flagValue(metadata, FLAG_KEYS.addsSpacePrefix) ?? true);
  const common = { model, preTokenizer: preTokenizerName, vocabulary, roles, specials, spacePrefix };
  if (model === "spm") {
    const encoder = new SpmEncoder(vocabulary, roles.unknown);
    return new VocabularyTokenizer({
      ...common,
      plainBytes: unescapeSpaces,
      encodeText: (bytes, start, end, afterSpecial, output) =>
        encoder.encode(bytes, start, end, spacePrefix && afterSpecial, output),
    });
  }
  if (arrays.merges === undefined && !preTokenizer.mergesOptional)
    throw complaint(MERGES_KEY, "array of string", "nothing");
  const merges =
    prebuilt?.merges === undefined
      ? yield* MergeTable.read(vocabulary, arrays.merges)
      : MergeTable.of(vocabulary, prebuilt.merges);
  const encoder = new BpeEncoder(vocabulary, merges, preTokenizer);
  return new VocabularyTokenizer({
    ...common,
    plainBytes: preTokenizer.byteLevel ? unspellBytes : unescapeSpaces,
    encodeText: (bytes, start, end, _, output) => encoder.encode(bytes, start, end, output),
  });
}

interface TokenizerParts {
  readonly model: "bpe" | "spm";
  readonly preTokenizer: string;
  readonly vocabulary: Vocabulary;
  readonly roles: TokenRoles;
  readonly specials: SpecialTokens;
  readonly spacePrefix: boolean;
  /** The bytes that a normal token's stored bytes represent. */
  readonly plainBytes: (stored: Uint8Array) => Uint8Array;
  /** Appends the tokens of text that contains no special tokens. */
  readonly encodeText: (bytes: Buffer, start: number, end: number, afterSpecial: boolean, output: TokenBuffer) => void;
}

class VocabularyTokenizer implements Tokenizer {
  readonly model: "bpe" | "spm";
  readonly preTokenizer: string;
  readonly #parts: TokenizerParts;
  readonly #vocabulary: Vocabulary;
  readonly #roles: TokenRoles;

  constructor(parts: TokenizerParts) {
    this.model = parts.model;
    this.preTokenizer = parts.preTokenizer;
    this.#parts = parts;
    this.#vocabulary = parts.vocabulary;
    this.#roles = parts.roles;
  }

  get vocabularySize(): number {
    return this.#vocabulary.size;
  }

  get longestTokenBytes(): number {
    return this.#vocabulary.longestBytes;
  }

  get bosToken(): number | undefined {
    return this.#roles.bos;
  }

  get eosToken(): number | undefined {
    return this.#roles.eos;
  }

  get addsBos(): boolean {
    return this.#roles.addsBos;
  }

  get addsEos(): boolean {
    return this.#roles.addsEos;
  }

  get endOfGeneration(): ReadonlySet<number> {
    return this.#roles.endOfGeneration;
  }

  encode(input: string, options: EncodeOptions = {}): Int32Array {
    if (typeof input !== "string") refuseValue("tokenizer", "text", "a string", input);
    refuseUnknownKeys("tokenizer", options, ENCODE_OPTIONS);
    return this.#encode(
      wholeText(input, optionalFlag("tokenizer", "parseSpecial", options.parseSpecial) ?? true),
      options,
    );
  }

  encodeSegments(segments: readonly TextSegment[], options: SegmentsOptions = {}): Int32Array {
    refuseUnknownKeys("tokenizer", options, SEGMENTS_OPTIONS);
    return this.#encode(joinSegments(segments), options);
  }

  #encode(input: EncodeInput, options: SegmentsOptions): Int32Array {
    const addSpecial = optionalFlag("tokenizer", "addSpecial", options.addSpecial) ?? true;
    const { bos, eos, addsBos, addsEos } = this.#roles;
    const output = new TokenBuffer();
    if (addSpecial && addsBos && bos !== undefined) output.push(bos);
    let afterSpecial = true;
    for (const { token, start, end } of this.#parts.specials.partition(input)) {
      if (token >= 0) output.push(token);
      else this.#parts.encodeText(input.bytes, start, end, afterSpecial, output);
      afterSpecial = token >= 0;
    }
    if (addSpecial && addsEos && eos !== undefined) output.push(eos);
    return output.since(0);
  }

  decode(ids: Iterable<number>, options: DecodeOptions = {}): string {
    refuseUnknownKeys("tokenizer", options, DECODE_OPTIONS);
    if (typeof ids?.[Symbol.iterator] !== "function") refuseValue("tokenizer", "ids", "a list of token ids", ids);
    const decoder = this.createDecoder(options);
    const parts: string[] = [];
    for (const id of ids) parts.push(decoder.push(id));
    parts.push(decoder.flush());
    return parts.join("");
  }

  tokenText(id: number): string {
    this.#checkId(id);
    return this.#vocabulary.text(id);
  }

  tokenBytes(id: number, special = false): Uint8Array {
    this.#checkId(id);
    const attributes = this.#vocabulary.attributes[id] as number;
    if (!special && (attributes & UNPRINTED) !== 0) return new Uint8Array();
    const stored = this.#vocabulary.bytes(id);
    if ((attributes & (UNPRINTED | TokenAttribute.userDefined)) !== 0) return Uint8Array.from(stored);
    if ((attributes & TokenAttribute.normal) !== 0) return this.#parts.plainBytes(stored);
    if ((attributes & TokenAttribute.byte) !== 0) return Uint8Array.of(byteOfToken(stored));
    return new Uint8Array();
  }

  createDecoder(options: StreamDecodeOptions = {}): StreamDecoder {
    refuseUnknownKeys("tokenizer", options, STREAM_DECODE_OPTIONS);
    const special = optionalFlag("tokenizer", "special", options.special) ?? false;
    const continuation = optionalFlag("tokenizer", "continuation", options.continuation) ?? false;
    return new StreamDecoder((id) => this.tokenBytes(id, special), this.#parts.spacePrefix && !continuation);
  }

  #checkId(id: number): void {
    if (Number.isInteger(id) && id >= 0 && id < this.#vocabulary.size) return;
    const { size } = this.#vocabulary;
    throw new TokenizerError(
      "TOKENIZER_TOKEN",
      `[tokenizer] token ${id}: expected an id from 0 to ${size - 1}, as this vocabulary has`,
      {
        details: { token: id, vocabularySize: size },
      },
    );
  }
}

/** `<0x0A>` represents a line feed; any other text of a byte token represents NUL, as C parses it. */
function byteOfToken(stored: Buffer): number {
  const value = Number.parseInt(stored.toString("latin1", 3, 5), 16);
  return Number.isNaN(value) ? 0 : value;
}

function defaultsOf(family: keyof typeof MODELS, preTokenizer: PreTokenizer) {
  const none = { bos: undefined, eos: undefined, unknown: undefined };
  switch (family) {
    case "llama":
      return { ...SPM_DEFAULT_IDS, addsBos: true };
    case "gemma4":
      return { ...none, addsBos: preTokenizer.addsBos };
    case "gpt2":
      return {
        ...none,
        bos: preTokenizer.hasDefaultBos ? BPE_DEFAULT_ID : undefined,
        eos: BPE_DEFAULT_ID,
        addsBos: preTokenizer.addsBos,
      };
    default:
      family satisfies never;
      throw unsupportedModel(family);
  }
}

function isSupportedModel(family: string): family is keyof typeof MODELS {
  return Object.hasOwn(MODELS, family);
}

function unsupportedModel(family: string): TokenizerError {
  const supported = Object.keys(MODELS);
  return new TokenizerError(
    "TOKENIZER_MODEL",
    `[tokenizer] ${MODEL_KEY}: ${JSON.stringify(family.slice(0, 64))} is not supported; supported are ${supported.join(", ")}`,
    { details: { field: MODEL_KEY, found: family, supported } },
  );
}
