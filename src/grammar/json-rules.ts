// The rules of JSON itself, each made when it is first asked for. Texts are strict: no raw control characters, no lone
// surrogates. Space is what printers write: nothing, one blank, or a line and its indentation.
//
// Lengths of strings are not in the rules, where each character would be a state that the library computes a mask of the
// whole vocabulary for. Behind its first quote a string with limits accepts a mark instead, that no token holds: whoever
// follows the text asks there whether the mark would be accepted, and so learns which limits hold (string-lengths.ts).

import { CharSet } from "./char-set.js";
import { choice, DIGIT, EMPTY, type Expression, optional, repeat, sequence, set, text } from "./expression.js";
import { GRAMMAR_LIMITS, grammarLimit } from "./limits.js";
import { regexExpression } from "./regex.js";
import type { GrammarRules } from "./rules.js";
import { WorkBudget } from "./work-budget.js";

/** The first character of a mark. Tokens that hold it are never allowed. */
export const MARK_CHARACTER = "\u0001";

/** In characters (code points). */
export interface LengthLimit {
  readonly min: number;
  readonly max: number;
}

const MAX_INDENT = 20;
/** Characters of patterns cost less than parts of a schema. */
const PATTERN_STEP_CHARACTERS = 4;
const CONTROL = CharSet.of([0, 0x1f]);
const QUOTE_AND_BACKSLASH = CharSet.ofText('"\\');
/** What stands for itself in a string. */
export const PLAIN = CharSet.all.minus(CONTROL).minus(QUOTE_AND_BACKSLASH);
/** How the others are written. */
const ESCAPES = QUOTE_AND_BACKSLASH.union(CONTROL).ranges.flatMap(({ from, to }) =>
  Array.from({ length: to - from + 1 }, (_, index) => ({ code: from + index, escape: text(JSON.stringify(String.fromCharCode(from + index)).slice(1, -1)) })),
);
const SHORT_ESCAPES = '"\\/bfnrt';
const HEX = set(CharSet.of([0x30, 0x39], [0x41, 0x46], [0x61, 0x66]));
const hexDigit = (digits: string): Expression => set(CharSet.ofText(digits));

export function markOf(limit: number): string {
  return `${MARK_CHARACTER}${limit};`;
}

/** By the set: patterns name few of them, again and again. */
const written = new WeakMap<CharSet, Expression>();

export class JsonRules {
  readonly rules: GrammarRules;
  readonly budget = new WorkBudget();
  readonly lengthLimits: LengthLimit[] = [];
  readonly #made = new Map<string, Expression>();

  constructor(rules: GrammarRules) {
    this.rules = rules;
  }

  get space(): Expression {
    return this.once("space", "", () => {
      const indent = repeat(set(CharSet.ofText(" \t")), 0, MAX_INDENT);
      return choice(EMPTY, text(" "), sequence(text("\n"), this.rules.add("indent", indent)));
    });
  }

  get value(): Expression {
    return this.once("value", "", () => choice(this.object, this.array, this.string, this.number, this.boolean, this.null));
  }

  get object(): Expression {
    return this.once("object", "", () => {
      const pair = this.pair(this.string, this.value);
      const rest = this.rules.reserve("members");
      this.rules.define(rest, choice(sequence(text(","), this.space, pair, rest), sequence(this.space, text("}"))));
      return sequence(text("{"), this.space, choice(sequence(pair, rest), text("}")));
    });
  }

  get array(): Expression {
    return this.once("array", "", () => this.arrayOf(this.value, 0, Infinity));
  }

  get boolean(): Expression {
    return choice(text("true"), text("false"));
  }

  get null(): Expression {
    return text("null");
  }

  get integer(): Expression {
    return this.once("integer", "", () => sequence(optional(text("-")), this.#digits()));
  }

  /** Exponents of two digits: more would be infinite where numbers have 64 bits. */
  get number(): Expression {
    return this.once("number", "", () => {
      const fraction = optional(sequence(text("."), repeat(DIGIT, 1, Infinity)));
      const exponent = optional(sequence(set(CharSet.ofText("eE")), optional(set(CharSet.ofText("+-"))), repeat(DIGIT, 1, 2)));
      return sequence(optional(text("-")), this.#digits(), fraction, exponent);
    });
  }

  get string(): Expression {
    return this.once("string", "", () => sequence(text('"'), this.#characters()));
  }

  limitedString(limit: LengthLimit, place: string): Expression {
    if (limit.min === 0 && limit.max === Infinity) return this.string;
    return this.once("string", `${limit.min} ${limit.max}`, () => {
      const mark = markOf(this.lengthLimits.length);
      if (this.lengthLimits.push(limit) > GRAMMAR_LIMITS.lengthLimits) throw grammarLimit(place, "lengthLimits", "different limits of length");
      return sequence(text('"'), optional(text(mark)), this.#characters());
    });
  }

  pair(key: Expression, value: Expression): Expression {
    return sequence(key, text(":"), this.space, value);
  }

  arrayOf(item: Expression, min: number, max: number): Expression {
    const { space, rules } = this;
    const next = sequence(text(","), space, item);
    const none = min === 0 ? [sequence(text("["), space, text("]"))] : [];
    if (max === 0) return choice(...none);
    const open = sequence(text("["), space, item);
    if (max !== Infinity || min > 1) {
      return choice(...none, sequence(open, repeat(next, Math.max(0, min - 1), max - 1), space, text("]")));
    }
    const rest = rules.reserve("items");
    rules.define(rest, choice(sequence(next, rest), sequence(space, text("]"))));
    return choice(...none, sequence(open, rest));
  }

  /** How characters of a set are written inside a string: one way for each. */
  inString(characters: CharSet): Expression {
    let known = written.get(characters);
    if (known === undefined) written.set(characters, (known = writtenInString(characters)));
    return known;
  }

  /** A string in which the pattern is found. */
  matching(pattern: string, place: string): Expression {
    return this.once("pattern", pattern, () => {
      this.budget.step(place, Math.ceil(pattern.length / PATTERN_STEP_CHARACTERS));
      const characters = (values: CharSet): Expression => this.inString(values);
      const inside = regexExpression(pattern, { place, characters, around: repeat(characters(CharSet.all), 0, Infinity) });
      return sequence(text('"'), inside, text('"'));
    });
  }

  /** One rule for all that have the same key. */
  once(hint: string, key: string, make: () => Expression): Expression {
    const name = `${hint} ${key}`;
    const known = this.#made.get(name);
    if (known !== undefined) return known;
    const rule = this.rules.reserve(hint);
    this.#made.set(name, rule);
    this.rules.define(rule, make());
    return rule;
  }

  /** All of a string behind its first quote: one rule, so that the library makes its large masks once. */
  #characters(): Expression {
    return this.once("characters", "", () => {
      const rest = this.rules.reserve("characters");
      this.rules.define(rest, choice(text('"'), sequence(set(PLAIN), rest), sequence(text("\\"), this.#escape(), rest)));
      return rest;
    });
  }

  #digits(): Expression {
    return choice(text("0"), sequence(set(CharSet.of([0x31, 0x39])), repeat(DIGIT, 0, Infinity)));
  }

  /** What may follow a backslash. */
  #escape(): Expression {
    return this.once("escape", "", () => {
      const pair = sequence(hexDigit("dD"), hexDigit("89abAB"), HEX, HEX, text("\\u"), hexDigit("dD"), hexDigit("cdefCDEF"), HEX, HEX);
      const unit = choice(
        sequence(hexDigit("0123456789abcefABCEF"), HEX, HEX, HEX),
        sequence(hexDigit("dD"), hexDigit("01234567"), HEX, HEX),
        pair,
      );
      return choice(set(CharSet.ofText(SHORT_ESCAPES)), sequence(text("u"), unit));
    });
  }
}

function writtenInString(characters: CharSet): Expression {
  return choice(set(characters.intersection(PLAIN)), ...ESCAPES.filter(({ code }) => characters.has(code)).map(({ escape }) => escape));
}
