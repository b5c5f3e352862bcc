import { describe, expect, test } from "vitest";
import type { GrammarSpec } from "../grammar-spec.js";
import { ASCII_KINDS, KIND_BYTES, MULTIBYTE } from "./character-kinds.js";
import { compileGrammar } from "../compile-grammar.js";
import { loopOf } from "./loops.js";

/** A character of each kind that any number of may follow, those beyond ASCII as é. */
function loops(spec: GrammarSpec, text: string): { readonly taken: string; readonly room: number } {
  const { automaton } = compileGrammar(spec);
  const set = automaton.walk(automaton.start, Buffer.from(text));
  if (set === null) throw new Error("the text does not fit");
  const { kinds, room } = loopOf(automaton, set);
  const ascii = [...KIND_BYTES.keys()]
    .filter((kind) => (kinds & kind) !== 0)
    .map((kind) => String.fromCharCode(KIND_BYTES.get(kind)?.[0] as number));
  return { taken: [...ascii, ...((kinds & MULTIBYTE) !== 0 ? ["é"] : [])].sort().join(""), room };
}

const string = (more: object = {}): GrammarSpec => ({
  kind: "schema",
  schema: { type: "object", properties: { a: { type: "string", ...more } } },
});
const OUTSIDE = new Set(['"', "\\", "\n", "\t", "\0"].map((character) => ASCII_KINDS[character.charCodeAt(0)]));
const INSIDE = [
  ...[...KIND_BYTES].filter(([kind]) => !OUTSIDE.has(kind)).map(([, bytes]) => String.fromCharCode(bytes[0] as number)),
  "é",
]
  .sort()
  .join("");

describe("characters that any number of may follow", () => {
  test.each([
    ["behind the quote of a string", string(), '{"a":"', INSIDE, Infinity],
    ["inside a string", string(), '{"a":"xy', INSIDE, Infinity],
    ["inside a string with a maximum", string({ maxLength: 20 }), '{"a":"xy', INSIDE, 18],
    ["behind the quote of one", string({ maxLength: 20 }), '{"a":"', INSIDE, 20],
    ["before a pattern that is found anywhere", string({ pattern: "foo" }), '{"a":"fo', INSIDE, Infinity],
    ["inside a class", { kind: "regex", pattern: "[a-z]+" } satisfies GrammarSpec, "a", "ag", Infinity],
    ["inside a counted class", string({ pattern: "^[a-z0-9]+$", maxLength: 9 }), '{"a":"x', "01ag", 8],
    ["inside a name that must be", string(), '{"', "", Infinity],
  ] as const)("%s", (_, spec, text, taken, room) => {
    expect(loops(spec, text)).toEqual({ taken, room });
  });
});
