import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { CharacterClass, characterClasses } from "./character-class.js";
import { PreSplitter } from "./pre-split.js";
import { PRE_TOKENIZER_NAMES, preTokenizerByName } from "./pre-tokenizers.js";
import { SplitText } from "./split-text.js";

function splitText(name: string, input: string): string[] {
  const bytes = Buffer.from(input);
  const text = new SplitText(bytes, 0, bytes.length);
  const characters = [...bytes.toString("utf8")];
  let start = 0;
  return new PreSplitter(preTokenizerByName(name).splits).split(text).map((end) => {
    const word = characters.slice(start, end).join("");
    start = end;
    return word;
  });
}

describe("pre-tokenizers", () => {
  test.each(PRE_TOKENIZER_NAMES)("%s only cuts: its words are the text, and none is empty", (name) => {
    const unit = fc.oneof(
      fc.string({ unit: "binary", minLength: 1, maxLength: 1 }),
      fc.constantFrom(" ", "  ", "\n", "'s", "123", "中", "e\u0301", "A", "b", "🚀"),
    );
    fc.assert(
      fc.property(fc.array(unit, { maxLength: 30 }), (units) => {
        const text = units.join("").toString();
        fc.pre(text !== "");
        const words = splitText(name, text);
        expect(words.join("")).toBe(Buffer.from(text).toString("utf8"));
        expect(words).not.toContain("");
      }),
      { numRuns: 40 },
    );
  });

  test.each([
    ["gpt-2", "I'LL don't  pay 1234!\n\n x", ["I", "'", "LL", " don", "'t", " ", " pay", " 1234", "!", "\n\n", " x"]],
    [
      "llama-bpe",
      "I'LL don't  pay 1234!\n\n x",
      ["I", "'LL", " don", "'t", " ", " pay", " ", "123", "4", "!\n\n", " x"],
    ],
    ["qwen2", "a 1234 \n b", ["a", " ", "1", "2", "3", "4", " \n", " b"]],
    ["deepseek-llm", "ab 12中文 c\r\n", ["ab", " ", "12", "中文", " c", "\r", "\n"]],
    ["deepseek-coder", "ab 12, c", ["ab", " ", "1", "2", ",", " c"]],
    ["falcon", "x=12345 y", ["x", "=", "123", "45", " y"]],
    ["starcoder", "x 12", ["x", " ", "1", "2"]],
    ["tekken", "HelloWorld ABc", ["Hello", "World", " ABc"]],
    ["gpt-4o", "HelloWorld's 1234", ["Hello", "World's", " ", "123", "4"]],
    ["superbpe", "a 1234567", ["a ", "1", "234", "567"]],
    ["afmoe", "a1234567", ["a", "1", "234", "567"]],
  ])("%s splits %j", (name, text, words) => {
    expect(splitText(name, text)).toEqual(words);
  });

  test("a huge word of a regular expression does not overflow its stack", () => {
    const words = splitText("exaone-moe", "a b".repeat(600_000));
    expect(words.join("").length).toBe(1_800_000);
  });
});

describe("character classes", () => {
  test("are Unicode 15.1's", () => {
    const classes = characterClasses();
    const classOf = (character: string): number => classes[character.codePointAt(0) as number] as number;
    expect(["a", "é", "中", "ª"].map(classOf)).toEqual(Array.from({ length: 4 }, () => CharacterClass.letter));
    expect(["1", "½", "Ⅷ", "٣"].map(classOf)).toEqual(Array.from({ length: 4 }, () => CharacterClass.number));
    expect([" ", "\n", "\u0085", "\u3000"].map(classOf)).toEqual(
      Array.from({ length: 4 }, () => CharacterClass.whitespace),
    );
    expect(["!", "$", "\u0301", "\u200b"].map(classOf)).toEqual([
      CharacterClass.punctuation,
      CharacterClass.symbol,
      CharacterClass.mark,
      CharacterClass.other,
    ]);
    // Assigned in 15.1, then not before 16.
    expect([0x2ffc, 0x31ef, 0x1c89].map((codePoint) => classes[codePoint])).toEqual([
      CharacterClass.symbol,
      CharacterClass.symbol,
      CharacterClass.other,
    ]);
  });
});
