// The named rules of one grammar, and their text in the notation of the library (EBNF). Only forms that the library is
// known to get right are printed: texts, classes of ASCII characters, and beyond these the bytes of UTF-8. (Version 0.1.27
// reads a class such as [à-ü] as bytes: wrong for characters, right for what is printed here. The tests of this folder
// hold it to that.)

import { CharSet, type CodeRange, utf8Sequences } from "./char-set.js";
import type { Expression } from "./expression.js";
import { GRAMMAR_LIMITS, grammarInvalid, grammarLimit } from "./limits.js";

export const ROOT = "root";

const ASCII = CharSet.of([0, 0x7f]);
const DEFINES = " ::= ";
const OR = " | ";

export class GrammarRules {
  readonly #bodies = new Map<string, Expression>();
  #next = 0;
  #printed = 0;

  /** A name for a rule that may refer to itself; `define` gives its body. */
  reserve(hint: string): Expression & { readonly kind: "rule" } {
    return { kind: "rule", name: `${hint}${this.#next++}` };
  }

  define(rule: { readonly name: string }, body: Expression): void {
    this.#bodies.set(rule.name, body);
  }

  add(hint: string, body: Expression): Expression {
    const rule = this.reserve(hint);
    this.define(rule, body);
    return rule;
  }

  /** The grammar's text. Options that could never come to an end are left out of it. */
  print(root: Expression, place: string): string {
    this.#printed = 0;
    this.define({ name: ROOT }, root);
    const ending = this.#endingRules();
    if (!ending.has(ROOT)) throw grammarInvalid(place, "expected something that a text can satisfy, found a contradiction or endless recursion");
    const lines: string[] = [];
    const waiting = [ROOT];
    const seen = new Set(waiting);
    const count = (characters: number): void => {
      this.#printed += characters;
      if (this.#printed > GRAMMAR_LIMITS.compiledCharacters) throw grammarLimit(place, "compiledCharacters", "a grammar with characters of rules");
    };
    const line = (name: string, body: string): void => {
      count(name.length + DEFINES.length + 1);
      lines.push(`${name}${DEFINES}${body}`);
    };
    const printer = new ExpressionPrinter(ending, {
      count,
      refer: (name) => {
        if (seen.has(name)) return;
        seen.add(name);
        waiting.push(name);
      },
      rule: (hint, body) => {
        const { name } = this.reserve(hint);
        line(name, body(name));
        return name;
      },
    });
    for (let name = waiting.pop(); name !== undefined; name = waiting.pop()) {
      line(name, printer.choice(this.#bodies.get(name) as Expression));
    }
    // The library looks for the root by its name; the rest may stand in any order.
    return lines.join("\n");
  }

  /** The rules that some finite text fits. */
  #endingRules(): ReadonlySet<string> {
    const ending = new Set<string>();
    const users = this.#usersOfRules();
    // What a rule needs is mostly defined after it. A rule is looked at again only when one that it mentions turned out to
    // end: the order of definitions is the request's to choose.
    let waiting: ReadonlySet<string> = new Set([...this.#bodies.keys()].reverse());
    while (waiting.size > 0) {
      const next = new Set<string>();
      for (const name of waiting) {
        if (ending.has(name) || !ends(this.#bodies.get(name) as Expression, ending)) continue;
        ending.add(name);
        for (const user of users.get(name) ?? []) if (!ending.has(user)) next.add(user);
      }
      waiting = next;
    }
    return ending;
  }

  /** Of each rule, those that mention it. */
  #usersOfRules(): ReadonlyMap<string, ReadonlySet<string>> {
    const users = new Map<string, Set<string>>();
    for (const [name, body] of this.#bodies) {
      for (const mentioned of rulesIn(body)) {
        const known = users.get(mentioned);
        if (known === undefined) users.set(mentioned, new Set([name]));
        else known.add(name);
      }
    }
    return users;
  }
}

function* rulesIn(expression: Expression): Generator<string, void, undefined> {
  if (expression.kind === "rule") yield expression.name;
  if (expression.kind === "sequence") for (const part of expression.parts) yield* rulesIn(part);
  if (expression.kind === "choice") for (const option of expression.options) yield* rulesIn(option);
  if (expression.kind === "repeat") yield* rulesIn(expression.part);
}

function ends(expression: Expression, ending: ReadonlySet<string>): boolean {
  switch (expression.kind) {
    case "text":
    case "set":
      return true;
    case "rule":
      return ending.has(expression.name);
    case "sequence":
      return expression.parts.every((part) => ends(part, ending));
    case "choice":
      return expression.options.some((option) => ends(option, ending));
    case "repeat":
      return expression.min === 0 || ends(expression.part, ending);
    default:
      return expression satisfies never;
  }
}

/** Whether it holds a repetition that is printed as a first part and a loop. */
function repeats(expression: Expression): boolean {
  switch (expression.kind) {
    case "sequence":
      return expression.parts.some(repeats);
    case "choice":
      return expression.options.some(repeats);
    case "repeat":
      return (expression.min > 0 && expression.max === Infinity) || repeats(expression.part);
    default:
      return false;
  }
}

interface PrinterHooks {
  /** So many characters more were printed. */
  count(characters: number): void;
  /** A rule is mentioned. */
  refer(name: string): void;
  /** Prints a rule of its own and returns its name. */
  rule(hint: string, body: (name: string) => string): string;
}

class ExpressionPrinter {
  readonly #ending: ReadonlySet<string>;
  readonly #hooks: PrinterHooks;

  constructor(ending: ReadonlySet<string>, hooks: PrinterHooks) {
    this.#ending = ending;
    this.#hooks = hooks;
  }

  /** As the body of a rule. */
  choice(expression: Expression): string {
    return this.#joined(this.#options(expression), OR);
  }

  #options(expression: Expression): readonly string[] {
    if (expression.kind === "choice") {
      return expression.options.filter((option) => ends(option, this.#ending)).flatMap((option) => this.#options(option));
    }
    if (expression.kind === "set") return setOptions(expression.set).map((option) => this.#counted(option));
    return [this.#sequence(expression)];
  }

  #sequence(expression: Expression): string {
    if (expression.kind === "sequence") return this.#joined(expression.parts.map((part) => this.#atom(part)), " ");
    return this.#atom(expression);
  }

  #atom(expression: Expression): string {
    switch (expression.kind) {
      case "text":
        return this.#counted(literal(expression.text));
      case "rule":
        this.#hooks.refer(expression.name);
        return this.#counted(expression.name);
      case "repeat":
        return this.#repeat(expression);
      case "set":
      case "choice":
      case "sequence": {
        const options = this.#options(expression);
        return options.length === 1 && expression.kind === "set" && isAtom(options[0] as string) ? (options[0] as string) : this.#group(this.#joined(options, OR));
      }
      default:
        return expression satisfies never;
    }
  }

  #repeat({ part, min, max }: Expression & { readonly kind: "repeat" }): string {
    if (!ends(part, this.#ending)) return this.#counted(literal(""));
    if (max !== Infinity) {
      const atom = part.kind === "repeat" ? this.#group(this.#atom(part)) : this.#atom(part);
      return `${atom}${this.#counted(max === 1 ? "?" : min === max ? `{${min}}` : `{${min},${max}}`)}`;
    }
    const options = this.#options(part);
    const [only] = options as [string];
    if (options.length === 1 && isAtom(only)) return this.#counted(min === 0 ? `${only}*` : `${only}${min === 1 ? "" : `{${min}}`} ${only}*`);
    if (min === 0) return this.#loop(options);
    const once = this.#joined(options, OR);
    // Printed twice, what is repeated inside of what is repeated would double at each level.
    const simple = !repeats(part);
    const first = simple ? this.#group(this.#counted(once)) : this.#counted(this.#hooks.rule("part", () => once));
    return `${first}${this.#counted(min === 1 ? " " : `{${min}} `)}${this.#loop(simple ? options : [first])}`;
  }

  /** Each turn of the loop has to stay inside one rule, or the library tries every token at every step. */
  #loop(options: readonly string[]): string {
    const turns = (name: string): string => this.#joined(options.map((option) => `${option} ${this.#counted(name)}`), OR);
    return this.#counted(this.#hooks.rule("loop", (name) => `${literal("")}${OR}${turns(name)}`));
  }

  #group(inside: string): string {
    this.#hooks.count(2);
    return `(${inside})`;
  }

  #joined(texts: readonly string[], separator: string): string {
    this.#hooks.count(separator.length * Math.max(0, texts.length - 1));
    return texts.join(separator);
  }

  #counted(printed: string): string {
    this.#hooks.count(printed.length);
    return printed;
  }
}

/** One class, with nothing beside it: a bracket inside one is always escaped. */
function isAtom(printed: string): boolean {
  return printed.startsWith("[") && printed.indexOf("]") === printed.length - 1;
}

/** Most sets are few and the same in every grammar. */
const printedSets = new WeakMap<CharSet, readonly string[]>();

function setOptions(value: CharSet): readonly string[] {
  let printed = printedSets.get(value);
  if (printed === undefined) printedSets.set(value, (printed = printSet(value)));
  return printed;
}

function printSet(value: CharSet): readonly string[] {
  const ascii = value.intersection(ASCII);
  const sequences = value.minus(ASCII).ranges.flatMap(utf8Sequences).map((bytes) => bytes.map(byteClass).join(" "));
  return ascii.empty ? sequences : [`[${ascii.ranges.map(classRange).join("")}]`, ...sequences];
}

function classRange({ from, to }: CodeRange): string {
  return from === to ? escaped(from) : `${escaped(from)}-${escaped(to)}`;
}

/** Twice where it is one byte: one alone would be taken for a character. */
function byteClass({ from, to }: CodeRange): string {
  return from === to ? `[${escaped(from)}${escaped(from)}]` : `[${escaped(from)}-${escaped(to)}]`;
}

/** With four digits: \x takes as many as there are. */
function escaped(code: number): string {
  return /[A-Za-z0-9]/.test(String.fromCharCode(code)) ? String.fromCharCode(code) : `\\u${code.toString(16).padStart(4, "0")}`;
}

/** As the library reads a text. */
export function literal(value: string): string {
  if (value === "") return `""`;
  const inside = value.replace(/[^ !#-[\]-~]/gu, (character) => {
    const code = character.codePointAt(0) as number;
    return code <= 0xffff ? `\\u${code.toString(16).padStart(4, "0")}` : `\\U${code.toString(16).padStart(8, "0")}`;
  });
  return `"${inside}"`;
}
