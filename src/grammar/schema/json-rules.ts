// The rules of JSON itself, each created at its first use. Texts are strict: no raw control characters, no lone
// surrogates. White space between tokens is one space or none. Models that call tools in another notation have its words,
// keys and strings in place of JSON's.

import { CharSet } from "../char-set.js";
import { choice, DIGIT, EMPTY, type Expression, optional, repeat, sequence, set, text } from "../expression.js";
import type { LengthLimits } from "../automaton/measure.js";
import type { GrammarRules } from "../rules.js";
import { WorkBudget } from "../work-budget.js";

const CONTROL = CharSet.of([0, 0x1f]);
const QUOTE_AND_BACKSLASH = CharSet.ofText('"\\');
/** Characters that need no escape in a string. */
export const PLAIN = CharSet.all.minus(CONTROL).minus(QUOTE_AND_BACKSLASH);
/** How the other characters are escaped. */
const ESCAPES = QUOTE_AND_BACKSLASH.union(CONTROL).ranges.flatMap(({ from, to }) =>
  Array.from({ length: to - from + 1 }, (_, index) => ({
    code: from + index,
    escape: text(JSON.stringify(String.fromCharCode(from + index)).slice(1, -1)),
  })),
);
const SHORT_ESCAPES = '"\\/bfnrt';
const HEX = set(CharSet.of([0x30, 0x39], [0x41, 0x46], [0x61, 0x66]));
const SPACE = choice(EMPTY, text(" "));
const hexDigit = (digits: string): Expression => set(CharSet.ofText(digits));

/** What a notation has in place of JSON's words, keys and strings. */
export interface JsonDialect {
  readonly words: { readonly true: string; readonly false: string; readonly null: string };
  /** Strings that are written as they are, between quotes of their own, and keys without quotes; undefined for JSON's. */
  readonly raw: RawStrings | undefined;
}

/** What a schema requires of a string, as far as strings without escapes take it; see StringDemands. */
interface RawDemands {
  readonly limits: LengthLimits;
  readonly patterns: readonly string[];
}

/** Strings without escapes. */
export interface RawStrings {
  readonly quote: readonly Expression[];
  /** The strings that meet the demands, without the quotes. */
  inside(demands: RawDemands): Expression;
}

const JSON_WORDS = { true: "true", false: "false", null: "null" } as const;
/** JSON itself. */
const JSON_DIALECT: JsonDialect = { words: JSON_WORDS, raw: undefined };
/** Python's values: JSON's, but for three words. */
export const PYTHON_DIALECT: JsonDialect = {
  words: { true: "True", false: "False", null: "None" },
  raw: undefined,
};

/** Values with bare keys, and strings that are written as they are. */
export function mapDialect(raw: RawStrings): JsonDialect {
  return { words: JSON_WORDS, raw };
}

/** Characters of a key without quotes that a schema does not mention. */
const BARE_KEY = repeat(set(CharSet.of([0x30, 0x39], [0x41, 0x5a], [0x5f, 0x5f], [0x61, 0x7a])), 1, Infinity);

/** Cached by set; patterns use few of them repeatedly. */
const written = new WeakMap<CharSet, Expression>();

/**
 * The rules of JSON itself (values, strings, numbers, white space) for one grammar; each is added when it is first
 * used.
 */
export class JsonRules {
  readonly rules: GrammarRules;
  readonly dialect: JsonDialect;
  readonly budget: WorkBudget;
  readonly #made = new Map<string, Expression>();

  constructor(rules: GrammarRules, dialect: JsonDialect = JSON_DIALECT, budget: WorkBudget = new WorkBudget()) {
    this.rules = rules;
    this.dialect = dialect;
    this.budget = budget;
  }

  /** The same grammar in another dialect, with rules of its own. */
  inDialect(dialect: JsonDialect): JsonRules {
    return new JsonRules(this.rules, dialect, this.budget);
  }

  get space(): Expression {
    return this.dialect.raw === undefined ? SPACE : EMPTY;
  }

  /** A name that the schema does not mention. */
  get anyKey(): Expression {
    return this.dialect.raw === undefined ? this.string : BARE_KEY;
  }

  key(name: string): Expression {
    return text(this.dialect.raw === undefined ? JSON.stringify(name) : name);
  }

  /** One value, without white space. */
  literal(value: unknown): Expression {
    const { words, raw } = this.dialect;
    if (typeof value === "string")
      return raw === undefined ? text(JSON.stringify(value)) : sequence(...raw.quote, text(value), ...raw.quote);
    if (value === null || typeof value === "boolean") return text(words[String(value) as keyof typeof words]);
    if (typeof value !== "object") return text(JSON.stringify(value));
    const isList = Array.isArray(value);
    const items = isList
      ? value.map((item) => this.literal(item))
      : Object.entries(value).map(([name, item]) => sequence(this.key(name), text(":"), this.literal(item)));
    const inside = items.flatMap((item, index) => (index === 0 ? [item] : [text(","), item]));
    return sequence(text(isList ? "[" : "{"), ...inside, text(isList ? "]" : "}"));
  }

  get value(): Expression {
    return this.once("value", "", () =>
      choice(this.object, this.array, this.string, this.number, this.boolean, this.null),
    );
  }

  get object(): Expression {
    return this.once("object", "", () => {
      const pair = this.pair(this.anyKey, this.value);
      const others = repeat(sequence(text(","), this.space, pair), 0, Infinity);
      return sequence(text("{"), this.space, choice(sequence(pair, others, this.space, text("}")), text("}")));
    });
  }

  get array(): Expression {
    return this.once("array", "", () => this.arrayOf(this.value, 0, Infinity));
  }

  get boolean(): Expression {
    return choice(text(this.dialect.words.true), text(this.dialect.words.false));
  }

  get null(): Expression {
    return text(this.dialect.words.null);
  }

  get integer(): Expression {
    return this.once("integer", "", () => sequence(optional(text("-")), this.#digits()));
  }

  /** Any number. Exponents have two digits: more could be infinite as a 64-bit number. */
  get number(): Expression {
    return this.once("number", "", () => {
      const fraction = optional(sequence(text("."), repeat(DIGIT, 1, Infinity)));
      const exponent = optional(
        sequence(set(CharSet.ofText("eE")), optional(set(CharSet.ofText("+-"))), repeat(DIGIT, 1, 2)),
      );
      return sequence(optional(text("-")), this.#digits(), fraction, exponent);
    });
  }

  get string(): Expression {
    return this.once("string", "", () => this.#stringOf({ min: 0, max: Infinity }));
  }

  limitedString({ min, max }: LengthLimits): Expression {
    if (min === 0 && max === Infinity) return this.string;
    return this.once("string", `${min} ${max}`, () => this.#stringOf({ min, max }));
  }

  #stringOf(limits: LengthLimits): Expression {
    const { raw } = this.dialect;
    if (raw !== undefined) return sequence(...raw.quote, raw.inside({ limits, patterns: [] }), ...raw.quote);
    return sequence(text('"'), repeat(this.#character(), limits.min, limits.max), text('"'));
  }

  pair(key: Expression, value: Expression): Expression {
    return sequence(key, text(":"), this.space, value);
  }

  arrayOf(item: Expression, min: number, max: number): Expression {
    const { space } = this;
    const next = sequence(text(","), space, item);
    const none = min === 0 ? [sequence(text("["), space, text("]"))] : [];
    if (max === 0) return choice(...none);
    return choice(
      ...none,
      sequence(text("["), space, item, repeat(next, Math.max(0, min - 1), max - 1), space, text("]")),
    );
  }

  /** The rule of a key, created once. */
  once(hint: string, key: string, make: () => Expression): Expression {
    const name = `${hint} ${key}`;
    const known = this.#made.get(name);
    if (known !== undefined) return known;
    const rule = this.rules.reserve(hint);
    this.#made.set(name, rule);
    this.rules.define(rule, make());
    return rule;
  }

  /** A character of a string in any of its spellings. */
  #character(): Expression {
    return choice(set(PLAIN), sequence(text("\\"), this.#escape()));
  }

  #digits(): Expression {
    return choice(text("0"), sequence(set(CharSet.of([0x31, 0x39])), repeat(DIGIT, 0, Infinity)));
  }

  /** What may follow a backslash in a string. */
  #escape(): Expression {
    return this.once("escape", "", () => {
      const pair = sequence(
        hexDigit("dD"),
        hexDigit("89abAB"),
        HEX,
        HEX,
        text("\\u"),
        hexDigit("dD"),
        hexDigit("cdefCDEF"),
        HEX,
        HEX,
      );
      const unit = choice(
        sequence(hexDigit("0123456789abcefABCEF"), HEX, HEX, HEX),
        sequence(hexDigit("dD"), hexDigit("01234567"), HEX, HEX),
        pair,
      );
      return choice(set(CharSet.ofText(SHORT_ESCAPES)), sequence(text("u"), unit));
    });
  }
}

/** The characters of a set inside a string, each in one spelling. */
export function inString(characters: CharSet): Expression {
  let known = written.get(characters);
  if (known === undefined) written.set(characters, (known = writtenInString(characters)));
  return known;
}

function writtenInString(characters: CharSet): Expression {
  return choice(
    set(characters.intersection(PLAIN)),
    ...ESCAPES.filter(({ code }) => characters.has(code)).map(({ escape }) => escape),
  );
}
