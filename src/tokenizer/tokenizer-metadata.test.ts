import { describe, expect, test } from "vitest";
import { arr, type GgufEntry, str, u32 } from "../gguf/entry.js";
import { GgufMetadata } from "../gguf/metadata.js";
import { checkTokenizerMetadata, suppressedTokens } from "./tokenizer-metadata.js";

const KEY = "tokenizer.ggml.suppress_tokens";
const TOKENS = ["a", "b", "c", "d", "e", "f"];
const VOCABULARY = [str("tokenizer.ggml.model", "gpt2"), arr("tokenizer.ggml.tokens", "string", TOKENS)];

describe("tokens that are never chosen", () => {
  const read = (entry: GgufEntry): number[] => [...suppressedTokens(new GgufMetadata([...VOCABULARY, entry]))];

  test("are read in order, once each, and only within the vocabulary", () => {
    expect([...suppressedTokens(new GgufMetadata(VOCABULARY))]).toEqual([]);
    expect(read(arr(KEY, "int32", [5, 2, 5, 3]))).toEqual([2, 3, 5]);
    expect(read(arr(KEY, "int32", [-1, 1, TOKENS.length, 2 ** 31 - 1]))).toEqual([1]);
    expect(read(arr(KEY, "uint32", [2 ** 32 - 1, 4]))).toEqual([4]);
    expect(read(arr(KEY, "int32", []))).toEqual([]);
  });

  test("are none in a file without a vocabulary", () => {
    expect([...suppressedTokens(new GgufMetadata([arr(KEY, "int32", [1, 2])]))]).toEqual([]);
  });

  test.each<readonly [string, GgufEntry]>([
    ["a number", u32(KEY, 1)],
    ["fractions", arr(KEY, "float32", [1.5])],
    ["texts", arr(KEY, "string", ["a"])],
    ["more ids than there are tokens", arr(KEY, "int32", [...TOKENS.map(() => 0), 0])],
    ["every token", arr(KEY, "int32", [...TOKENS.keys()])],
  ])("are refused at opening: %s", (_, entry) => {
    const metadata = new GgufMetadata([...VOCABULARY, entry]);
    const refused = expect.objectContaining({ code: "GGUF_TOKENIZER", field: KEY }) as Error;
    expect(() => checkTokenizerMetadata(metadata)).toThrow(refused);
  });
});
