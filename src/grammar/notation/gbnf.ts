// Parses grammars in GBNF (EBNF) to rules. Errors have a line and column.

import { CharSet, MAX_CODE } from "../char-set.js";
import { choice, type Expression, repeat, sequence, set, text } from "../expression.js";
import { GRAMMAR_LIMITS, grammarInvalid, grammarLimit } from "../limits.js";
import { countedTimes, markTimes, ONCE, type Times } from "./quantifier.js";
import { GrammarRules, ROOT } from "../rules.js";

/** Names may begin with a dash or digit, as in llama.cpp; underscores are an extension. */
const NAME = /[A-Za-z0-9_-]+/y;
const DEFINES = /::=/y;
/** White space and comments, which may span lines between rules and inside parentheses. */
const SPACE_OF_LINE = /(?:[ \t]|#[^\n]*)*/y;
const SPACE = /(?:[ \t\r\n]|#[^\n]*)*/y;
const COUNT = /\{[ \t]*(\d{1,7})[ \t]*(,[ \t]*(\d{0,7})[ \t]*)?\}/y;
const ESCAPE = /\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([^xuU]))/uy;
const ESCAPED: Readonly<Record<string, string>> = { n: "\n", r: "\r", t: "\t" };

interface ReadGrammar {
  readonly rules: GrammarRules;
  readonly root: Expression;
}

/** Parses a grammar in GBNF, the notation of llama.cpp; errors have the line and column. */
export function ebnfGrammar(source: string, place: string): ReadGrammar {
  if (source.length > GRAMMAR_LIMITS.grammarCharacters)
    throw grammarLimit(place, "grammarCharacters", "a grammar of characters");
  return new EbnfReader(source, place).read();
}

class EbnfReader {
  readonly #source: string;
  readonly #place: string;
  readonly #rules = new GrammarRules();
  readonly #names = new Map<
    string,
    { readonly rule: Expression & { readonly kind: "rule" }; defined: boolean; readonly firstUse: number }
  >();
  #at = 0;
  #depth = 0;

  constructor(source: string, place: string) {
    this.#source = source;
    this.#place = place;
  }

  read(): ReadGrammar {
    this.#match(SPACE);
    while (this.#at < this.#source.length) {
      this.#rule();
      this.#match(SPACE);
    }
    for (const [name, { defined, firstUse }] of this.#names)
      if (!defined) this.#refuse("a rule for every name", `no rule "${name}"`, firstUse);
    const root = this.#names.get(ROOT);
    if (root === undefined) return this.#refuse(`a rule "${ROOT}"`, "none");
    return { rules: this.#rules, root: root.rule };
  }

  #rule(): void {
    const start = this.#at;
    const name = this.#match(NAME)?.[0];
    if (name === undefined) return this.#refuse("the name of a rule", this.#shown());
    this.#match(SPACE_OF_LINE);
    if (this.#match(DEFINES) === undefined) this.#refuse('"::="', this.#shown());
    this.#match(SPACE);
    const entry = this.#named(name, start);
    if (entry.defined) this.#refuse("one rule of a name", `a second "${name}"`, start);
    entry.defined = true;
    this.#rules.define(entry.rule, this.#choice());
    const next = this.#source[this.#at];
    if (next !== undefined && next !== "\n" && next !== "\r") this.#refuse("the end of a rule", this.#shown());
  }

  #choice(): Expression {
    const options = [this.#sequence()];
    for (;;) {
      // A line that begins with "|" continues the rule.
      const before = this.#at;
      this.#match(SPACE);
      if (this.#source[this.#at] !== "|") {
        this.#at = before;
        return choice(...options);
      }
      this.#at++;
      this.#match(SPACE);
      options.push(this.#sequence());
    }
  }

  #sequence(): Expression {
    const parts: Expression[] = [];
    for (;;) {
      this.#space();
      const part = this.#atom();
      if (part === undefined) return sequence(...parts);
      const [min, max] = this.#quantifier();
      parts.push(repeat(part, min, max));
    }
  }

  #atom(): Expression | undefined {
    const start = this.#at;
    switch (this.#source[start]) {
      case '"':
        return this.#literal();
      case "[":
        return set(this.#class());
      case ".":
        this.#at++;
        return set(CharSet.all);
      case "(": {
        this.#at++;
        if (++this.#depth > GRAMMAR_LIMITS.groupDepth)
          throw grammarLimit(this.#where(), "groupDepth", "groups inside each other");
        const inside = this.#choice();
        this.#match(SPACE);
        this.#depth--;
        if (this.#source[this.#at] !== ")") this.#refuse('")"', this.#shown());
        this.#at++;
        return inside;
      }
      default: {
        const name = this.#match(NAME)?.[0];
        return name === undefined ? undefined : this.#named(name, start).rule;
      }
    }
  }

  #quantifier(): Times {
    const before = this.#at;
    this.#space();
    const simple = markTimes(this.#source[this.#at]);
    if (simple !== undefined) {
      this.#at++;
      return simple;
    }
    const start = this.#at;
    const counted = this.#match(COUNT);
    if (counted === undefined) {
      this.#at = before;
      return ONCE;
    }
    const [min, max] = countedTimes(counted[1] as string, counted[2], counted[3], () => this.#where(start));
    if (max < min) this.#refuse("a repetition from few to many", counted[0], start);
    return [min, max];
  }

  /** Skips white space; inside parentheses a rule may span lines. */
  #space(): void {
    this.#match(this.#depth > 0 ? SPACE : SPACE_OF_LINE);
  }

  #literal(): Expression {
    const start = this.#at++;
    const characters: string[] = [];
    for (;;) {
      const character = this.#character();
      if (character === undefined || (character === "\n" && !this.#escaped))
        this.#refuse('a text with its closing "', "none", start);
      if (character === '"' && !this.#escaped) return text(characters.join(""));
      characters.push(character as string);
    }
  }

  #class(): CharSet {
    const start = this.#at++;
    const negated = this.#source[this.#at] === "^";
    if (negated) this.#at++;
    const sets: CharSet[] = [];
    for (;;) {
      const from = this.#character();
      if (from === undefined || (from === "\n" && !this.#escaped))
        this.#refuse('a class with its closing "]"', "none", start);
      if (from === "]" && !this.#escaped) break;
      const low = (from as string).codePointAt(0) as number;
      if (this.#source[this.#at] !== "-" || this.#source[this.#at + 1] === "]") {
        sets.push(CharSet.of([low, low]));
        continue;
      }
      this.#at++;
      const high = this.#character()?.codePointAt(0);
      if (high === undefined || high < low) this.#refuse("a range of characters from low to high", "none", start);
      sets.push(CharSet.of([low, high as number]));
    }
    const inside = CharSet.union(sets);
    return negated ? inside.complement() : inside;
  }

  /** Whether the last character was written with a backslash. */
  #escaped = false;

  #character(): string | undefined {
    this.#escaped = this.#source[this.#at] === "\\";
    if (!this.#escaped) {
      const code = this.#source.codePointAt(this.#at);
      if (code === undefined) return undefined;
      const character = String.fromCodePoint(code);
      this.#at += character.length;
      return character;
    }
    const found = this.#match(ESCAPE);
    if (found === undefined) return this.#refuse("an escape", this.#shown());
    const hex = found[1] ?? found[2] ?? found[3];
    if (hex === undefined) return ESCAPED[found[4] as string] ?? found[4];
    const code = Number.parseInt(hex, 16);
    if (code > MAX_CODE) this.#refuse("a character", found[0]);
    return String.fromCodePoint(code);
  }

  #named(name: string, firstUse: number) {
    let entry = this.#names.get(name);
    if (entry === undefined)
      this.#names.set(name, (entry = { rule: this.#rules.reserve("r"), defined: false, firstUse }));
    return entry;
  }

  #match(pattern: RegExp): RegExpExecArray | undefined {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#source);
    if (found === null) return undefined;
    this.#at = pattern.lastIndex;
    return found;
  }

  #shown(): string {
    const rest = this.#source.slice(this.#at, this.#at + 20).split("\n")[0];
    return rest === "" || rest === undefined ? "the end" : JSON.stringify(rest);
  }

  #where(at = this.#at): string {
    const before = this.#source.slice(0, at).split("\n");
    return `${this.#place}, line ${before.length}, column ${(before.at(-1) as string).length + 1}`;
  }

  #refuse(expected: string, found: string, at = this.#at): never {
    throw grammarInvalid(this.#where(at), `expected ${expected}, found ${found}`);
  }
}
