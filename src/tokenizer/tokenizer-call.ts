// Calls of a tokenizer as data, executed in place or posted to a worker. Lists and texts for a response are returned as
// the bytes of their JSON, so that posting them takes constant time.

import type { EncodeOptions, TextSegment, Tokenizer } from "./tokenizer.js";

/** A call of a tokenizer, as data that can be posted to a worker. */
export type TokenizerCall =
  | { readonly kind: "encode"; readonly texts: readonly (readonly TextSegment[])[]; readonly addSpecial: boolean }
  | { readonly kind: "tokenize"; readonly text: string; readonly options: EncodeOptions; readonly withPieces: boolean }
  | { readonly kind: "decode"; readonly lists: readonly Int32Array[] }
  | { readonly kind: "detokenize"; readonly tokens: Int32Array; readonly special: boolean };

/** The result of each kind of call. */
interface TokenizerResults {
  readonly encode: readonly Int32Array[];
  readonly tokenize: {
    readonly count: number;
    readonly tokensJson: Uint8Array;
    readonly piecesJson: Uint8Array | undefined;
  };
  readonly decode: readonly string[];
  readonly detokenize: { readonly contentJson: Uint8Array };
}

/** The result of a call. */
export type TokenizerResult<Call extends TokenizerCall> = TokenizerResults[Call["kind"]];

/** Executes a call with a tokenizer. */
export function answerTokenizerCall<Call extends TokenizerCall>(
  tokenizer: Tokenizer,
  call: Call,
): TokenizerResult<Call>;
export function answerTokenizerCall(
  tokenizer: Tokenizer,
  call: TokenizerCall,
): TokenizerResults[keyof TokenizerResults] {
  switch (call.kind) {
    case "encode":
      return call.texts.map((segments) => tokenizer.encodeSegments(segments, { addSpecial: call.addSpecial }));
    case "tokenize": {
      const tokens = tokenizer.encode(call.text, call.options);
      const pieces = call.withPieces
        ? Array.from(tokens, (token) => Buffer.from(tokenizer.tokenBytes(token, true)).toString("utf8"))
        : undefined;
      return {
        count: tokens.length,
        tokensJson: Buffer.from(`[${tokens.join(",")}]`),
        piecesJson: pieces === undefined ? undefined : jsonBytes(pieces),
      };
    }
    case "decode":
      return call.lists.map((tokens) => tokenizer.decode(tokens));
    case "detokenize":
      return { contentJson: jsonBytes(tokenizer.decode(call.tokens, { special: call.special })) };
    default:
      return call satisfies never;
  }
}

function jsonBytes(value: unknown): Uint8Array {
  return Buffer.from(JSON.stringify(value));
}

/** The total length of the segments in characters. */
export function charactersIn(segments: readonly TextSegment[]): number {
  return segments.reduce((sum, { text }) => sum + text.length, 0);
}

/** The approximate cost of a call, in characters of text. */
export function charactersOf(call: TokenizerCall): number {
  switch (call.kind) {
    case "encode":
      return call.texts.reduce((sum, segments) => sum + charactersIn(segments), 0);
    case "tokenize":
      return call.text.length;
    case "decode":
      return call.lists.reduce((sum, { length }) => sum + length, 0) * CHARACTERS_OF_TOKEN;
    case "detokenize":
      return call.tokens.length * CHARACTERS_OF_TOKEN;
    default:
      return call satisfies never;
  }
}

/** Decoding a token takes as long as encoding this many characters. */
const CHARACTERS_OF_TOKEN = 4;
