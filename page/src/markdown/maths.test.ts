import { Marked, type Token } from "marked";
import { describe, expect, it } from "vitest";
import { decodeEntities } from "./entities";
import { MATHS_EXTENSIONS } from "./maths";

const marked = new Marked({}, { extensions: [...MATHS_EXTENSIONS] });

/** The formulas of a text, blocks in brackets. */
function formulas(text: string): readonly string[] {
  const all = (tokens: readonly Token[]): readonly Token[] =>
    tokens.flatMap((token) => [token, ...("tokens" in token ? all(token.tokens ?? []) : [])]);
  return all(marked.lexer(text))
    .filter(({ type }) => type === "maths")
    .map((token) =>
      "isBlock" in token && token.isBlock === true
        ? `[${"text" in token ? token.text : ""}]`
        : String("text" in token ? token.text : ""),
    );
}

describe("formulas", () => {
  it.each([
    ["the sum $a + b$ is", ["a + b"]],
    [String.raw`the sum \(a + b\) is`, ["a + b"]],
    ["$$\nx^2\n$$", ["[x^2]"]],
    [String.raw`\[ x^2 \]`, ["[x^2]"]],
    ["text\n$$y$$\nmore", ["[y]"]],
    ["it costs $5 and $6", []],
    ["between $ 5 and 6 $ there", []],
    ["`$a$` is code", []],
    ["```\n$$a$$\n```", []],
  ])("of %j", (text, expected) => {
    expect(formulas(text)).toEqual(expected);
  });
});

it("decodes entities and leaves what is none", () => {
  expect(decodeEntities("a &lt; b &amp;&#39;&#x41; &unknown; &")).toBe("a < b &'A &unknown; &");
});
