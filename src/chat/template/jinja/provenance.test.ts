// Texts keep track of where they come from. The law is checked with two alphabets: variables have Greek letters only and
// templates none, so that in whatever comes out each letter tells its own provenance.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { rendered } from "./testing/rendered.js";
import { joined, Text } from "./text.js";

const GREEK = /\p{Script=Greek}/u;
const LATIN = /\p{Script=Latin}/u;

function expectTruth(text: Text): void {
  let all = "";
  for (const stretch of text.stretches()) {
    expect(stretch.text).not.toBe("");
    expect(stretch.text).not.toMatch(stretch.untrusted ? LATIN : GREEK);
    all += stretch.text;
  }
  expect(all).toBe(text.value);
  for (let at = 2; at < text.borders.length; at++) expect(text.borders[at]).toBeGreaterThan(text.borders[at - 1]);
}

/** Expressions over `u` and `v` from outside and literals of the template's own, each a text. */
const { text: expression } = fc.letrec<{ text: string }>((tie) => {
  const one = tie("text");
  const wrapped = (...forms: readonly string[]): fc.Arbitrary<string> =>
    fc.tuple(fc.constantFrom(...forms), one).map(([form, inner]) => form.replace("_", () => `(${inner})`));
  return {
    text: fc.oneof(
      { maxDepth: 4, withCrossShrink: true },
      fc.constantFrom("u", "v", "w.name", "w['key']", "l[0]", "'ab'", "'c d'", "' '", "''", "'e\\nf'"),
      fc
        .tuple(one, fc.constantFrom(" + ", " ~ "), one)
        .map(([left, operator, right]) => `(${left})${operator}(${right})`),
      wrapped(
        "_ | trim",
        "_ | upper",
        "_ | lower",
        "_ | title",
        "_ | capitalize",
        "_ | indent(2, true)",
        "_ | reverse",
        "_ | list | join('z')",
        "_ | string",
        "_ | escape",
        "_ | replace('a', u)",
        "_ | replace(u, 'q')",
        "_ | default(v)",
      ),
      wrapped(
        "_[1:]",
        "_[:-1]",
        "_[::-1]",
        "_[::2]",
        "_.strip('aα')",
        "_.split('b')[0]",
        "_.split(u) | join('-')",
        "_.split() | last ~ ''",
        "_.replace('', v)",
        "_.partition(' ')[2]",
        "_.removeprefix(u)",
        "_.splitlines() | join(v)",
        "u.join(['x', _, 'y'])",
      ),
      wrapped(
        "'%s%s' | format(_, u)",
        "'%s%s' % (_, 'k')",
        "'{}g{}'.format(u, _)",
        "[_, u] | join(v)",
        "[_, 'h', u] | sort | join('')",
        "[_, u, u] | unique | join",
        "_ if u else v",
        "(_ or u)",
        "m(_)",
        "[_, 'm'] | map('upper') | join",
      ),
    ),
  };
});

const VARIABLES = fc.record({
  u: fc.string({ unit: fc.constantFrom("α", "β", "Ω", " ", "\n", "ΐ"), maxLength: 6 }),
  v: fc.string({ unit: fc.constantFrom("γ", "δ", " "), maxLength: 4 }),
});

describe("provenance", () => {
  test("is kept by every operation on texts", () => {
    fc.assert(
      fc.property(expression, VARIABLES, (body, { u, v }) => {
        const template = `{% macro m(x) %}i{{ x }}j{{ u }}{% endmacro %}{{ ${body} }}{% set s %}n{{ ${body} }}{% endset %}{{ s }}{% for c in u %}{{ c }}o{% endfor %}`;
        try {
          expectTruth(rendered(template, { u, v, w: { name: u, key: v }, l: [v] }));
        } catch (error) {
          // Only what a template is refused for; an empty separator is.
          if (!(error instanceof Error) || error.message !== "empty separator") throw error;
        }
      }),
      { numRuns: 400 },
    );
  });

  test("what printing adds is not the template's own", () => {
    const borders = (template: string): unknown =>
      [...rendered(template, { d: { κ: "λ" }, l: ["μ"] }).stretches()].map(({ text, untrusted }) =>
        untrusted ? [text] : text,
      );
    expect(borders("a{{ d }}b")).toStrictEqual(["a", ["{'κ': 'λ'}"], "b"]);
    expect(borders("a{{ d | tojson }}b")).toStrictEqual(["a", ['{"κ": "λ"}'], "b"]);
    expect(borders("{{ [l, 'x'] }}")).toStrictEqual([["[['μ'], '"], "x", ["']"]]);
    expect(borders("{{ {'y': l} | tojson }}")).toStrictEqual([['{"'], "y", ['": ["μ"]}']]);
    expect(borders("{% for k in d %}{{ k }}{% endfor %}{{ d.items() | list }}")).toStrictEqual([["κ[('κ', 'λ')]"]]);
    expect(borders("{{ 'c' }}{{ 5 }}{{ true }}")).toStrictEqual(["c5True"]);
  });

  test("goes no way around: what is from outside stays so as a format, a width, a name", () => {
    const template = `{% macro m() %}{{ kwargs }}{{ kwargs | tojson }}{% endmacro %}{{ 'a\nb' | indent(u, true) }}{{ strftime_now(u) }}{{ namespace(w) | tojson }}{{ dict(w) }}{{ dict(**w) }}{{ m(**w) }}
      {{- l | tojson(indent=u) }}{{ l | tojson(separators=(u, u)) }}{{ 'a' | replace('a', u) }}{{ u.format('b') }}{{ w | dictsort }}{{ [u, 'c'] | max }}{{ [w] | groupby('ν') | list }}{{ [u] | batch(2, u) | list }}{{ (u | list)[0] }}`;
    expectTruth(rendered(template, { u: "α%", w: { ν: "ξ" }, l: ["π"] }));
  });

  test("of texts that are cut and joined anywhere", () => {
    const part = fc.record({ value: fc.string({ maxLength: 4 }), untrusted: fc.boolean() });
    fc.assert(
      fc.property(fc.array(part, { maxLength: 8 }), fc.nat(40), fc.nat(40), (parts, a, b) => {
        const text = Text.concat(
          ...parts.map(({ value, untrusted }) => (untrusted ? Text.untrusted(value) : Text.trusted(value))),
        );
        const marks = parts.flatMap(({ value, untrusted }) => Array.from({ length: value.length }, () => untrusted));
        const marksOf = (from: Text): boolean[] =>
          [...from.stretches()].flatMap((stretch) =>
            Array.from({ length: stretch.text.length }, () => stretch.untrusted),
          );
        expect(marksOf(text)).toStrictEqual(marks);
        const [from, to] = [Math.min(a, b, text.length), Math.min(Math.max(a, b), text.length)];
        expect(marksOf(text.slice(from, to))).toStrictEqual(marks.slice(from, to));
        expect(text.slice(from, to).value).toBe(text.value.slice(from, to));
        expect(marksOf(joined([text.slice(0, from), text.slice(from)], Text.trusted("")))).toStrictEqual(marks);
      }),
    );
  });
});
