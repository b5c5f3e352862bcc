// Parses values that models write in a notation other than JSON, and spells them as JSON: Python's literals (LFM2, OLMo),
// and maps with bare keys and strings between marks (Gemma 4). Numbers keep their digits. Text that is no value gives
// undefined, never an error.

import { MAX_CALL_DEPTH } from "../limits.js";

/** How values are written. */
export interface LiteralNotation {
  /** The marks that open and close strings. */
  readonly quotes: readonly string[];
  /** Whether a backslash escapes a character of a string. */
  readonly escapes: boolean;
  /** Whether keys of maps, and strings among the values, may be without quotes. */
  readonly bareText: boolean;
}

/** Python's literals. */
export const PYTHON_NOTATION: LiteralNotation = { quotes: ['"', "'"], escapes: true, bareText: false };

const WORDS: ReadonlyMap<string, string> = new Map([
  ["True", "true"],
  ["False", "false"],
  ["None", "null"],
  ["true", "true"],
  ["false", "false"],
  ["null", "null"],
]);
const BRACKETS: ReadonlyMap<string, string> = new Map([
  ["[", "]"],
  ["(", ")"],
]);
const NUMBER = /[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?/y;
const JSON_NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;
const IDENTIFIER = /[A-Za-z_][\w-]*/y;
const BARE_TEXT = /[^,:{}[\]<"']+/y;
const SPACE = /\s*/y;
/** What may follow the quote that ends a string; another one is an apostrophe that the model did not escape. */
const BEHIND_STRING = /\s*(?:[,)\]}:]|$)/y;
const ESCAPES: Readonly<Record<string, string>> = {
  n: "\n",
  t: "\t",
  r: "\r",
  b: "\b",
  f: "\f",
  v: "\v",
  a: "\u0007",
  "0": "\0",
  "\n": "",
};

/** Whether the quote that ends here also ends its string. */
export function endsString(text: string, behindQuote: number): boolean {
  BEHIND_STRING.lastIndex = behindQuote;
  return BEHIND_STRING.test(text);
}

/** The arguments of `name(a=1, b="x")`, from what is between its parentheses, as the JSON text of an object. */
export function pythonArguments(text: string, parameters: readonly string[]): string | undefined {
  return new LiteralParser(text, PYTHON_NOTATION).keywordArguments(parameters);
}

/** A list or a dictionary as Python prints it, as JSON text. */
export function pythonCollection(text: string): string | undefined {
  return new LiteralParser(text, PYTHON_NOTATION).wholeCollection();
}

/** A map `{key: value, …}` as the JSON text of an object. */
export function mapArguments(text: string, notation: LiteralNotation): string | undefined {
  return new LiteralParser(text, notation).wholeMap();
}

class LiteralParser {
  readonly #text: string;
  readonly #notation: LiteralNotation;
  #at = 0;

  constructor(text: string, notation: LiteralNotation) {
    this.#text = text;
    this.#notation = notation;
  }

  keywordArguments(parameters: readonly string[]): string | undefined {
    const members = new Map<string, string>();
    this.#space();
    for (let position = 0; this.#at < this.#text.length; position++) {
      const start = this.#at;
      let key = this.#match(IDENTIFIER);
      this.#space();
      if (key === undefined || !this.#literal("=")) {
        // A positional argument belongs to the parameter at its place.
        this.#at = start;
        key = parameters[position];
      }
      const value = key === undefined ? undefined : this.#value(1);
      if (key === undefined || value === undefined) return undefined;
      members.set(key, value);
      this.#space();
      if (this.#at < this.#text.length && !this.#literal(",")) return undefined;
      this.#space();
    }
    return objectText(members);
  }

  wholeMap(): string | undefined {
    const map = this.#value(0);
    this.#space();
    return map?.startsWith("{") === true && this.#at === this.#text.length ? map : undefined;
  }

  wholeCollection(): string | undefined {
    const value = this.#value(0);
    this.#space();
    return value !== undefined && /^[[{]/.test(value) && this.#at === this.#text.length ? value : undefined;
  }

  #value(depth: number): string | undefined {
    if (depth > MAX_CALL_DEPTH) return undefined;
    this.#space();
    if (this.#literal("{")) return this.#map(depth);
    const open = this.#text[this.#at] ?? "";
    const close = BRACKETS.get(open);
    if (close !== undefined) {
      this.#at++;
      return this.#list(close, depth);
    }
    const text = this.#string();
    if (text !== undefined) return JSON.stringify(text);
    return this.#number() ?? this.#word();
  }

  #map(depth: number): string | undefined {
    const members = new Map<string, string>();
    for (;;) {
      this.#space();
      if (this.#literal("}")) return objectText(members);
      const key = this.#key();
      this.#space();
      if (key === undefined || !this.#literal(":")) return undefined;
      const value = this.#value(depth + 1);
      if (value === undefined) return undefined;
      members.set(key, value);
      if (!this.#separated("}")) return undefined;
    }
  }

  #list(close: string, depth: number): string | undefined {
    const items: string[] = [];
    for (;;) {
      this.#space();
      if (this.#literal(close)) return `[${items.join(",")}]`;
      const item = this.#value(depth + 1);
      if (item === undefined) return undefined;
      items.push(item);
      if (!this.#separated(close)) return undefined;
    }
  }

  /** Reads a comma, unless the closing bracket follows. */
  #separated(close: string): boolean {
    this.#space();
    return this.#text[this.#at] === close || this.#literal(",");
  }

  #key(): string | undefined {
    const quoted = this.#string();
    if (quoted !== undefined) return quoted;
    if (!this.#notation.bareText) return this.#number();
    return this.#match(BARE_TEXT)?.trim();
  }

  #string(): string | undefined {
    const quote = this.#notation.quotes.find((mark) => this.#text.startsWith(mark, this.#at));
    if (quote === undefined) return undefined;
    const start = this.#at + quote.length;
    for (let at = start; at < this.#text.length; at++) {
      if (this.#notation.escapes && this.#text[at] === "\\") at++;
      else if (this.#text.startsWith(quote, at) && (quote.length > 1 || endsString(this.#text, at + 1))) {
        this.#at = at + quote.length;
        const inside = this.#text.slice(start, at);
        return this.#notation.escapes ? unescaped(inside) : inside;
      }
    }
    return undefined;
  }

  #number(): string | undefined {
    const digits = this.#match(NUMBER);
    if (digits === undefined) return undefined;
    if (JSON_NUMBER.test(digits)) return digits;
    const value = Number(digits);
    return Number.isFinite(value) ? JSON.stringify(value) : undefined;
  }

  #word(): string | undefined {
    const start = this.#at;
    const word = this.#match(IDENTIFIER);
    const known = word === undefined ? undefined : WORDS.get(word);
    if (known !== undefined || !this.#notation.bareText) return known;
    this.#at = start;
    const bare = this.#match(BARE_TEXT)?.trim();
    return bare === undefined || bare === "" ? undefined : JSON.stringify(bare);
  }

  #match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#at;
    const match = pattern.exec(this.#text);
    if (match === null) return undefined;
    this.#at = pattern.lastIndex;
    return match[0];
  }

  #space(): void {
    this.#match(SPACE);
  }

  #literal(text: string): boolean {
    if (!this.#text.startsWith(text, this.#at)) return false;
    this.#at += text.length;
    return true;
  }
}

function objectText(members: ReadonlyMap<string, string>): string {
  return `{${Array.from(members, ([key, value]) => `${JSON.stringify(key)}:${value}`).join(",")}}`;
}

function unescaped(inside: string): string {
  return inside.replaceAll(
    /\\(?:u\{([\da-fA-F]{1,6})\}|u([\da-fA-F]{4})|x([\da-fA-F]{2})|([\s\S]))/g,
    (
      whole,
      braced: string | undefined,
      unit: string | undefined,
      byte: string | undefined,
      one: string | undefined,
    ) => {
      const code = braced ?? unit ?? byte;
      if (code !== undefined) {
        const value = Number.parseInt(code, 16);
        return value > 0x10ffff ? whole : String.fromCodePoint(value);
      }
      if (one === undefined) return whole;
      // As in Python, which keeps the backslash before a character that it does not escape: `"\d+"` is a pattern.
      return Object.hasOwn(ESCAPES, one) ? (ESCAPES[one] as string) : "\\'\"".includes(one) ? one : whole;
    },
  );
}
