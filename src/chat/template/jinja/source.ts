// Parses the source of a template with the lexer and parser of a library. Syntax that these do not support is converted
// first: Python's string escapes; tests with an argument (`is divisibleby 3`) and tuples of one (`(1,)`), which become
// filters of names that no template can write.

import { type TemplateProgram, parse, type SyntaxToken, tokenize } from "./syntax.js";
import { TESTS_OF_TWO } from "./tests.js";

/** Marks filters that are tests; no name in a template has spaces. */
export const TEST_PREFIX = "is ";
/** Starts the name of the filter that replaces a negated test with an argument, as in `x is not divisibleby 3`. */
export const NEGATED_TEST_PREFIX = "is not ";
/** The name of the filter that replaces a tuple of one item, as in `(1,)`. */
export const TUPLE_OF_ONE = "tuple of one";

/** Parses a chat template with `trim_blocks` and `lstrip_blocks`, as Transformers does; syntax errors throw. */
export function parseTemplate(source: string): TemplateProgram {
  // Models were trained on prompts that were rendered with both of these options.
  const tokens = tokenize(withKnownEscapes(source), { lstrip_blocks: true, trim_blocks: true });
  return parse(withTestsAsFilters(withoutLastCommas(tokens)));
}

const TAG_STARTS = /\{[{%#]/g;
/** Either the end of a tag, or a string in it. */
const IN_TAG = /-?[%}]\}|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"/gs;

function withKnownEscapes(source: string): string {
  if (!source.includes("\\")) return source;
  let [result, from] = ["", 0];
  for (;;) {
    TAG_STARTS.lastIndex = from;
    const start = TAG_STARTS.exec(source);
    if (start === null) return result + source.slice(from);
    const inside = start.index + 2;
    result += source.slice(from, inside);
    from = start[0] === "{#" ? commentEnd(source, inside) : inside;
    result += source.slice(inside, from);
    if (start[0] === "{#") continue;
    IN_TAG.lastIndex = from;
    for (let part = IN_TAG.exec(source); part !== null; part = IN_TAG.exec(source)) {
      const isString = part[0].startsWith("'") || part[0].startsWith('"');
      result += source.slice(from, part.index) + (isString ? part[0].replaceAll(ESCAPE, knownEscape) : part[0]);
      from = IN_TAG.lastIndex;
      if (!isString) break;
    }
  }
}

function commentEnd(source: string, from: number): number {
  const end = source.indexOf("#}", from);
  return end < 0 ? source.length : end + 2;
}

const ESCAPE = /\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))/gs;
const KNOWN = "ntrbfv'\"\\";

/** An unknown escape is kept, with its backslash, as in Python. */
function knownEscape(
  whole: string,
  byte: string | undefined,
  unit: string | undefined,
  point: string | undefined,
  other: string | undefined,
): string {
  const digits = byte ?? unit ?? point;
  if (digits === undefined) return KNOWN.includes(other as string) ? whole : other === "\n" ? "" : `\\${whole}`;
  const code = Number.parseInt(digits, 16);
  const character = code <= 0x10ffff ? String.fromCodePoint(code) : "\ufffd";
  return "'\"\\".includes(character) ? `\\${character}` : character;
}

const OPENING = new Set(["OpenParen", "OpenSquareBracket", "OpenCurlyBracket"]);
const CLOSING = new Set(["CloseParen", "CloseSquareBracket", "CloseCurlyBracket"]);
const VALUES = new Set(["NumericLiteral", "StringLiteral", "Identifier"]);

const NOT_CALLED = new Set(["in", "and", "or", "not", "is", "if", "elif", "else"]);

/** Whether a bracket behind the token opens a call. */
function isCalled(token: SyntaxToken | undefined): boolean {
  if (token?.type === "Identifier") return !NOT_CALLED.has(token.value);
  return token?.type === "CloseParen" || token?.type === "CloseSquareBracket";
}

/** `(a, b,)` is `(a, b)`, and `(a,)` a tuple all the same. */
function withoutLastCommas(tokens: readonly SyntaxToken[]): readonly SyntaxToken[] {
  const result: SyntaxToken[] = [];
  const brackets: { readonly isTuple: boolean; readonly place: number; commas: number }[] = [];
  for (const [at, token] of tokens.entries()) {
    if (OPENING.has(token.type))
      brackets.push({
        isTuple: token.type === "OpenParen" && !isCalled(result.at(-1)),
        place: result.length,
        commas: 0,
      });
    const bracket = brackets.at(-1);
    const isLast = token.type === "Comma" && tokens[at + 1]?.type === "CloseParen" && bracket?.isTuple === true;
    if (token.type === "Comma" && bracket !== undefined) bracket.commas++;
    if (!isLast) result.push(token);
    else if (bracket.commas === 1) {
      result.splice(bracket.place, 0, { type: "OpenParen", value: "(" });
      result.push(
        { type: "CloseParen", value: ")" },
        { type: "Pipe", value: "|" },
        { type: "Identifier", value: TUPLE_OF_ONE },
      );
    }
    if (CLOSING.has(token.type)) brackets.pop();
  }
  return result;
}

function withTestsAsFilters(tokens: readonly SyntaxToken[]): readonly SyntaxToken[] {
  if (!tokens.some((token) => isWord(token, "is"))) return tokens;
  const result: SyntaxToken[] = [];
  for (let at = 0; at < tokens.length;) {
    const negated = isWord(tokens[at], "is") && isWord(tokens[at + 1], "not");
    const name = at + (negated ? 2 : 1);
    const end =
      isWord(tokens[at], "is") && TESTS_OF_TWO.has(tokens[name]?.value ?? "") && tokens[name]?.type === "Identifier"
        ? operandEnd(tokens, name + 1)
        : name + 1;
    if (end <= name + 1) {
      result.push(tokens[at++]);
      continue;
    }
    // Double brackets are harmless, but around a list of arguments they would make a tuple.
    const operand = withTestsAsFilters(tokens.slice(name + 1, end));
    const bare = operand[0]?.type !== "OpenParen";
    result.push(
      { type: "Pipe", value: "|" },
      { type: "Identifier", value: (negated ? NEGATED_TEST_PREFIX : TEST_PREFIX) + tokens[name].value },
    );
    result.push(
      ...(bare ? [{ type: "OpenParen", value: "(" }] : []),
      ...operand,
      ...(bare ? [{ type: "CloseParen", value: ")" }] : []),
    );
    at = end;
  }
  return result;
}

function isWord(token: SyntaxToken | undefined, word: string): boolean {
  return token?.type === "Identifier" && token.value === word;
}

/** The index behind a value with its members and calls; `from` if there is none. */
function operandEnd(tokens: readonly SyntaxToken[], from: number): number {
  let at = from;
  if (VALUES.has(tokens[at]?.type ?? "")) at++;
  for (;;) {
    const type = tokens[at]?.type ?? "";
    if (type === "Dot" && at > from) at += 2;
    else if (OPENING.has(type) && (at === from || type !== "OpenCurlyBracket")) at = bracketEnd(tokens, at);
    else return at;
  }
}

function bracketEnd(tokens: readonly SyntaxToken[], from: number): number {
  let depth = 0;
  for (let at = from; at < tokens.length; at++) {
    if (OPENING.has(tokens[at].type)) depth++;
    if (CLOSING.has(tokens[at].type) && (depth -= 1) === 0) return at + 1;
  }
  return tokens.length;
}
