// `rocmforge tokenize`: the same tokens as llama.cpp, with and without the special ones.

import { readFileSync, writeFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { TemporaryFolder } from "../support/temporary-folder.js";
import { fixture, rocmforge } from "./command-line.js";

interface TokenizeJson {
  readonly tokens: readonly number[];
  readonly count: number;
  readonly pieces: readonly string[];
}

const golden = JSON.parse(readFileSync(fixture("golden/tokenize-fable.json"), "utf8")) as {
  readonly cases: readonly { readonly text: string; readonly tokens: readonly number[] }[];
};
const MODEL = fixture("models/fable-10m-Q8_0.gguf");
const BOS = 0;

async function tokenizeJson(args: readonly string[], input = ""): Promise<TokenizeJson> {
  const finished = await rocmforge(["tokenize", "-m", MODEL, "--json", ...args], { input });
  expect(finished).toMatchObject({ status: 0, stderr: "" });
  return JSON.parse(finished.stdout) as TokenizeJson;
}

describe("tokenize", () => {
  const longest = golden.cases.reduce((most, candidate) =>
    candidate.tokens.length > most.tokens.length ? candidate : most,
  );

  it("gives llama.cpp's ids for a file, byte for byte", async () => {
    using folder = new TemporaryFolder();
    writeFileSync(folder.file("text.txt"), longest.text);
    const result = await tokenizeJson(["--file", folder.file("text.txt")]);
    expect(result).toMatchObject({ tokens: longest.tokens, count: longest.tokens.length });
    expect(result.pieces).toHaveLength(longest.tokens.length);
  });

  it("keeps the last line break of stdin", async () => {
    const [withBreak, without] = await Promise.all([tokenizeJson(["-f", "-"], "a\n"), tokenizeJson(["-f", "-"], "a")]);
    expect(withBreak.count).toBe(without.count + 1);
  });

  it("adds no BOS with --no-special, but still reads special tokens in the text", async () => {
    expect(await tokenizeJson(["-p", "a<|endoftext|>", "--no-special"])).toEqual({
      tokens: [65, BOS],
      count: 2,
      pieces: ["a", "<|endoftext|>"],
    });
  });

  it("reads them as text with --no-parse-special", async () => {
    const { tokens, pieces } = await tokenizeJson(["-p", "<|endoftext|>", "--no-special", "--no-parse-special"]);
    expect(tokens).not.toContain(BOS);
    expect(pieces.join("")).toBe("<|endoftext|>");
  });

  it("gives an empty list for an empty text", async () => {
    expect(await tokenizeJson(["-p", "", "--no-special"])).toEqual({ tokens: [], count: 0, pieces: [] });
  });

  it("shows ids and pieces as text, half characters as bytes and control characters as escapes", async () => {
    const { status, stdout } = await rocmforge(["tokenize", "-m", MODEL, "-p", "a\u001bé"]);
    expect(status).toBe(0);
    expect(stdout).toMatch(/^ {3}0 {2}"<\|endoftext\|>"\n {2}65 {2}"a"\n/);
    expect(stdout).toContain(String.raw`"\u{1b}"`);
    expect(stdout).toMatch(/"<0xC3>"\n.*"<0xA9>"\n5 tokens\n$/);
  });

  it("writes more tokens than one chunk of output holds", async () => {
    const { tokens, count, pieces } = await tokenizeJson(["-f", "-", "--no-special"], "a b ".repeat(10_000));
    expect(tokens).toHaveLength(count);
    expect(count).toBeGreaterThan(16_384);
    expect(pieces.join("")).toBe("a b ".repeat(10_000));
  });
});
