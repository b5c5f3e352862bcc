// Texts that match a regular expression, drawn by reading the expression: by a reader of its own, for what tests write
// and no more, which asks RegExp what each of its smallest parts matches.

import type { Dice } from "../../support/dice.js";

/** What characters of a class are drawn from, beside those that it names. */
const POOL = [
  ..."abcxyzABCXYZ0123456789_-+.,:;/\\\"' \t\n#@$%éßñ€日本語😀😄\u0000\u0001\u007f\u0080\u07ff\u0800\uffff",
  "\u{10000}",
  "\u{10ffff}",
];
const MOST_TURNS = 4;

const atoms = new Map<string, readonly string[]>();

export class RegexSampler {
  readonly #source: string;
  readonly #dice: Dice;
  #at = 0;
  /** Parts that are skipped are read and add nothing. */
  #silent = 0;

  private constructor(source: string, dice: Dice) {
    this.#source = source;
    this.#dice = dice;
  }

  /** A match of the expression, which anchors do not change. */
  static draw(pattern: string, dice: Dice): string {
    return new RegexSampler(pattern, dice).#alternatives();
  }

  #alternatives(): string {
    const start = this.#at;
    let count = 1;
    this.#silent++;
    this.#sequence();
    for (; this.#peek() === "|"; count++) {
      this.#at++;
      this.#sequence();
    }
    this.#silent--;
    const end = this.#at;
    if (this.#silent > 0) return "";
    const chosen = this.#dice.below(count);
    this.#at = start;
    for (let index = 0; index < chosen; index++) {
      this.#silent++;
      this.#sequence();
      this.#silent--;
      this.#at++;
    }
    const text = this.#sequence();
    this.#at = end;
    return text;
  }

  #sequence(): string {
    let text = "";
    while (this.#at < this.#source.length && this.#peek() !== "|" && this.#peek() !== ")") text += this.#quantified();
    return text;
  }

  #quantified(): string {
    const start = this.#at;
    this.#silent++;
    this.#atom();
    this.#silent--;
    const atomEnd = this.#at;
    const [quantifier = ""] = /^(?:[*+?]|\{\d+(?:,\d*)?\})?\??/.exec(this.#source.slice(atomEnd)) as RegExpExecArray;
    const end = atomEnd + quantifier.length;
    let text = "";
    for (let turns = this.#silent > 0 ? 0 : this.#turns(quantifier); turns > 0; turns--) {
      this.#at = start;
      text += this.#atom();
    }
    this.#at = end;
    return text;
  }

  #turns(quantifier: string): number {
    const mark = quantifier.replace(/(.)\?$/, "$1");
    const counted = /^\{(\d+)(,(\d*))?\}/.exec(mark);
    const [min, max] =
      counted !== null
        ? [
            Number(counted[1]),
            counted[2] === undefined ? Number(counted[1]) : counted[3] === "" ? Infinity : Number(counted[3]),
          ]
        : mark === "*"
          ? [0, Infinity]
          : mark === "+"
            ? [1, Infinity]
            : mark === "?"
              ? [0, 1]
              : [1, 1];
    return min + this.#dice.below(Math.min(max - min, MOST_TURNS) + 1);
  }

  #atom(): string {
    const rest = this.#source.slice(this.#at);
    if (rest.startsWith("(")) {
      this.#at += (/^\((?:\?:|\?<\w+>)?/.exec(rest) as RegExpExecArray)[0].length;
      const text = this.#alternatives();
      this.#at++;
      return text;
    }
    const [atom = ""] =
      /^(?:\[(?:\\.|[^\]\\])*\]|\\u\{[^}]*\}|\\u[0-9a-fA-F]{4}|\\x[0-9a-fA-F]{2}|\\c[A-Za-z]|\\.|[^])/u.exec(
        rest,
      ) as RegExpExecArray;
    this.#at += atom.length;
    if (this.#silent > 0 || atom === "^" || atom === "$") return "";
    return this.#dice.pick(charactersOfAtom(atom));
  }

  #peek(): string | undefined {
    return this.#source[this.#at];
  }
}

function charactersOfAtom(atom: string): readonly string[] {
  let known = atoms.get(atom);
  if (known === undefined) {
    const expression = new RegExp(`^${atom}$`, "u");
    const named = [
      ...atom.replaceAll(/\\u\{([0-9A-Fa-f]+)\}|\\u([0-9a-fA-F]{4})|\\x([0-9a-fA-F]{2})/g, (_, ...codes: string[]) =>
        String.fromCodePoint(Number.parseInt(codes.find((code) => code !== undefined) as string, 16)),
      ),
    ];
    const controls = Array.from({ length: 32 }, (_, code) => String.fromCharCode(code));
    known = [...new Set([...named, ...POOL, ...controls])].filter((character) => expression.test(character));
    if (known.length === 0) throw new Error(`the sampler knows no character of ${atom}`);
    atoms.set(atom, known);
  }
  return known;
}
