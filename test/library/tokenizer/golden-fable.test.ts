// How llama.cpp splits awkward strings with our own vocabulary, special tokens parsed and BOS added.

import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { GgufFile } from "../../../src/gguf/file.js";
import { createTokenizer } from "../../../src/tokenizer/tokenizer.js";

const fixture = (name: string): string => new URL(`../../fixtures/${name}`, import.meta.url).pathname;

interface Golden {
  readonly cases: readonly { readonly text: string; readonly tokens: readonly number[] }[];
}

const golden = JSON.parse(readFileSync(fixture("golden/tokenize-fable.json"), "utf8")) as Golden;
using file = await GgufFile.open(fixture("models/fable-10m-Q8_0.gguf"));
const tokenizer = createTokenizer(file.metadata);

describe("golden tokenizations of fable", () => {
  test("there are cases to check", () => {
    expect(golden.cases.length).toBeGreaterThan(20);
  });

  test.each(golden.cases)("encodes $text", ({ text, tokens }) => {
    expect([...tokenizer.encode(text)]).toEqual(tokens);
  });

  test.each(golden.cases)("decodes $text", ({ text, tokens }) => {
    // "<|endoftext|>" in a text is decoded only if special tokens are printed, and BOS with it.
    const withoutBos = tokens.slice(tokenizer.addsBos ? 1 : 0);
    expect(tokenizer.decode(withoutBos, { special: true })).toBe(text);
  });
});
