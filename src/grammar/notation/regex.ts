// Parses regular expressions in ECMAScript's notation to expressions of a grammar. What a grammar cannot express
// (look-behind, back-references, word boundaries) is refused with its position; lazy and greedy quantifiers match the
// same language.

import { CharSet, MAX_CODE } from "../char-set.js";
import { choice, EMPTY, type Expression, repeat, sequence } from "../expression.js";
import { unicodeProperty } from "./unicode-property.js";
import { GRAMMAR_LIMITS, grammarInvalid, grammarLimit } from "../limits.js";
import { countedTimes, markTimes, ONCE, type Times } from "./quantifier.js";

/** How a regular expression is embedded in a grammar. */
export interface RegexOptions {
  /** The expression's place in error messages, as "regex" or "schema.properties.name.pattern". */
  readonly place: string;
  /** How the characters of a set are written, for example inside a JSON string. */
  readonly characters: (set: CharSet) => Expression;
  /** What may precede a match without ^, and follow one without $. */
  readonly around: Expression;
}

const DIGITS = CharSet.of([0x30, 0x39]);
const WORD = CharSet.of([0x30, 0x39], [0x41, 0x5a], [0x5f, 0x5f], [0x61, 0x7a]);
const SPACE = CharSet.of(
  [0x09, 0x0d],
  [0x20, 0x20],
  [0xa0, 0xa0],
  [0x1680, 0x1680],
  [0x2000, 0x200a],
  [0x2028, 0x2029],
  [0x202f, 0x202f],
  [0x205f, 0x205f],
  [0x3000, 0x3000],
  [0xfeff, 0xfeff],
);
const NO_NEW_LINE = CharSet.of([0x0a, 0x0a], [0x0d, 0x0d], [0x2028, 0x2029]).complement();
const CLASS_ESCAPES: Readonly<Record<string, CharSet>> = {
  d: DIGITS,
  D: DIGITS.complement(),
  w: WORD,
  W: WORD.complement(),
  s: SPACE,
  S: SPACE.complement(),
};
const CONTROL_ESCAPES: Readonly<Record<string, number>> = { t: 0x09, n: 0x0a, v: 0x0b, f: 0x0c, r: 0x0d, 0: 0x00 };
const HEX_LENGTHS: Readonly<Record<string, number>> = { x: 2, u: 4 };

/** The texts that an expression matches. */
export function regexExpression(pattern: string, options: RegexOptions): Expression {
  if (pattern.length > GRAMMAR_LIMITS.regexCharacters)
    throw grammarLimit(options.place, "regexCharacters", "a regular expression of characters");
  return new RegexReader(pattern, options).read();
}

class RegexReader {
  readonly #characters: readonly string[];
  readonly #options: RegexOptions;
  #at = 0;
  #depth = 0;

  constructor(pattern: string, options: RegexOptions) {
    this.#characters = [...pattern];
    this.#options = options;
  }

  read(): Expression {
    const expression = this.#choice();
    if (this.#at < this.#characters.length) this.#refuse('")" without "("');
    return expression;
  }

  #choice(): Expression {
    const options = [this.#branch()];
    while (this.#take("|")) options.push(this.#branch());
    return choice(...options);
  }

  #branch(): Expression {
    const outermost = this.#depth === 0;
    const { around } = this.#options;
    const parts: Expression[] = [];
    let start = outermost ? around : EMPTY;
    let end = start;
    if (this.#peek() === "^") {
      if (!outermost) this.#refuse('"^" inside a group');
      this.#at++;
      start = EMPTY;
    }
    for (let next = this.#peek(); next !== undefined && next !== "|" && next !== ")"; next = this.#peek()) {
      if (next === "$") {
        if (!outermost) this.#refuse('"$" inside a group');
        this.#at++;
        end = EMPTY;
        const after = this.#peek();
        if (after !== undefined && after !== "|") this.#refuse('something behind "$"');
        break;
      }
      parts.push(this.#quantified());
    }
    return sequence(start, ...parts, end);
  }

  #quantified(): Expression {
    const start = this.#at;
    const part = this.#atom();
    const [min, max] = this.#quantifier() ?? ONCE;
    if (max < min) this.#refuse(`a repetition from ${min} to ${max}`, start);
    this.#take("?");
    if (this.#peek() !== undefined && "*+?".includes(this.#peek() as string))
      this.#refuse("a repetition of a repetition");
    return repeat(part, min, max);
  }

  #quantifier(): Times | undefined {
    const next = this.#peek();
    const simple = markTimes(next);
    if (simple !== undefined) {
      this.#at++;
      return simple;
    }
    if (next !== "{") return undefined;
    const counted = /^\{(\d{1,7})(,(\d{0,7}))?\}/.exec(this.#characters.slice(this.#at, this.#at + 20).join(""));
    // A brace that is no quantifier is literal.
    if (counted === null) return undefined;
    this.#at += counted[0].length;
    return countedTimes(counted[1] as string, counted[2], counted[3], () => this.#place());
  }

  #atom(): Expression {
    const character = this.#next();
    switch (character) {
      case "(":
        return this.#group();
      case "[":
        return this.#options.characters(this.#class());
      case ".":
        return this.#options.characters(NO_NEW_LINE);
      case "\\":
        return this.#options.characters(this.#escape(false));
      case "*":
      case "+":
      case "?":
        return this.#refuse(`"${character}" with nothing to repeat`, this.#at - 1);
      case "^":
        return this.#refuse('"^" behind something', this.#at - 1);
      default:
        return this.#options.characters(CharSet.ofText(character));
    }
  }

  #group(): Expression {
    const start = this.#at - 1;
    if (this.#take("?")) {
      const kind = this.#next();
      if (kind === "<" && this.#peek() !== "=" && this.#peek() !== "!") {
        while (this.#next() !== ">");
      } else if (kind !== ":") {
        this.#refuse("a look around, or a group with flags", start);
      }
    }
    if (++this.#depth > GRAMMAR_LIMITS.groupDepth)
      throw grammarLimit(this.#place(), "groupDepth", "groups inside each other");
    const inside = this.#choice();
    this.#depth--;
    if (!this.#take(")")) this.#refuse('"(" without ")"', start);
    return inside;
  }

  #class(): CharSet {
    const negated = this.#take("^");
    const sets: CharSet[] = [];
    while (!this.#take("]")) {
      const start = this.#at;
      const from = this.#classMember();
      if (this.#peek() !== "-" || this.#characters[this.#at + 1] === "]") {
        sets.push(from);
        continue;
      }
      this.#at++;
      const to = this.#classMember();
      const [low, high] = [single(from), single(to)];
      if (low === undefined || high === undefined) {
        // A dash next to a class such as \w is literal.
        sets.push(from, CharSet.ofText("-"), to);
        continue;
      }
      if (low > high) this.#refuse("a range of characters that is none", start);
      sets.push(CharSet.of([low, high]));
    }
    const inside = CharSet.union(sets);
    return negated ? inside.complement() : inside;
  }

  #classMember(): CharSet {
    const character = this.#next('"[" without "]"');
    return character === "\\" ? this.#escape(true) : CharSet.ofText(character);
  }

  #escape(inClass: boolean): CharSet {
    const start = this.#at - 1;
    const character = this.#next("a backslash at the end");
    if (Object.hasOwn(CLASS_ESCAPES, character)) return CLASS_ESCAPES[character] as CharSet;
    if (inClass && character === "b") return CharSet.of([0x08, 0x08]);
    if (character === "0" && /\d/.test(this.#peek() ?? "")) this.#refuse("an octal escape", start);
    if (Object.hasOwn(CONTROL_ESCAPES, character)) {
      const code = CONTROL_ESCAPES[character] as number;
      return CharSet.of([code, code]);
    }
    if (Object.hasOwn(HEX_LENGTHS, character)) return this.#hexEscape(character, start);
    if (character === "p" || character === "P") return this.#property(character === "P", start);
    if (character === "c" && /[A-Za-z]/.test(this.#peek() ?? "")) {
      const code = this.#next().charCodeAt(0) % 32;
      return CharSet.of([code, code]);
    }
    if (/[A-Za-z0-9]/.test(character)) this.#refuse(`"\\${character}"`, start);
    return CharSet.ofText(character);
  }

  #property(negated: boolean, start: number): CharSet {
    const found = /^\{([A-Za-z_]{1,40}(?:=[A-Za-z_]{1,40})?)\}/.exec(
      this.#characters.slice(this.#at, this.#at + 90).join(""),
    );
    const named = found === null ? undefined : unicodeProperty(found[1] as string);
    if (found === null || named === undefined)
      return this.#refuse(`"\\${negated ? "P" : "p"}" without a property of Unicode`, start);
    this.#at += found[0].length;
    return negated ? named.complement() : named;
  }

  #hexEscape(kind: string, start: number): CharSet {
    const rest = this.#characters.slice(this.#at, this.#at + 12).join("");
    const braced = kind === "u" ? /^\{([0-9a-fA-F]{1,8})\}/.exec(rest) : null;
    const plain = new RegExp(`^([0-9a-fA-F]{${HEX_LENGTHS[kind]}})`).exec(rest);
    const found = braced ?? plain;
    if (found === null) return this.#refuse(`"\\${kind}" without its digits`, start);
    this.#at += found[0].length;
    let code = Number.parseInt(found[1] as string, 16);
    // A surrogate pair.
    const low =
      code >= 0xd800 && code <= 0xdbff
        ? /^\\u([dD][c-fC-F][0-9a-fA-F]{2})/.exec(this.#characters.slice(this.#at, this.#at + 6).join(""))
        : null;
    if (low !== null) {
      this.#at += low[0].length;
      code = 0x10000 + (code - 0xd800) * 0x400 + (Number.parseInt(low[1] as string, 16) - 0xdc00);
    }
    if (code > MAX_CODE) this.#refuse("a character beyond the last", start);
    return CharSet.of([code, code]);
  }

  #peek(): string | undefined {
    return this.#characters[this.#at];
  }

  #take(character: string): boolean {
    if (this.#peek() !== character) return false;
    this.#at++;
    return true;
  }

  #next(otherwise = "its end too early"): string {
    const character = this.#peek();
    if (character === undefined) this.#refuse(otherwise);
    this.#at++;
    return character as string;
  }

  #place(at = this.#at): string {
    return `${this.#options.place}, character ${at + 1}`;
  }

  #refuse(found: string, at = this.#at): never {
    throw grammarInvalid(this.#place(at), `expected a regular expression that a grammar can follow, found ${found}`);
  }
}

function single(set: CharSet): number | undefined {
  const [range] = set.ranges;
  return set.ranges.length === 1 && range !== undefined && range.from === range.to ? range.from : undefined;
}
