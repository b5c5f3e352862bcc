// The identifiers of a source file in TypeScript, JavaScript, C++ or HIP: comments and text are skipped, template
// expressions are not. A scanner of about a screen, because names are all that it has to find.

/** A `/` after one of these begins a regular expression in TypeScript; after a name or a bracket it divides. */
const BEFORE_REGEX = /(?:^|[(,=:[!&|?{};+\-*%<>~^]|\b(?:return|typeof|case|in|of|do|else|await|yield|void))\s*$/;
const REGEX = /\/(?:[^/\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+\/[a-z]*/y;
const NAME = /[A-Za-z_$][\w$]*/y;
const NUMBER = /\d[\w.]*/y;
const COMMENT = /\/\/[^\n]*|\/\*[^]*?\*\//y;
const QUOTED = /"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'/y;
/** Text that is a name of its own, such as the discriminant of a union: `kind: "matmul"`. */
const NAME_TEXT = /^["'][a-z]+(?:-[a-z]+)*["']$/;
const LOOK_BEHIND = 40;

export interface Identifier {
  readonly name: string;
  readonly line: number;
  /** Whether it is the content of a string literal. */
  readonly isText: boolean;
}

/** All identifiers of a source text, and the string literals that consist of one name in lower case. */
export function identifiersOf(text: string, isTypeScript: boolean): Identifier[] {
  const found: Identifier[] = [];
  /** The bracket depths at which the expressions of template literals end. */
  const templates: number[] = [];
  let depth = 0;
  let at = 0;
  let line = 1;

  const match = (pattern: RegExp): string | undefined => {
    pattern.lastIndex = at;
    return pattern.exec(text)?.[0];
  };
  const skip = (part: string): void => {
    line += part.split("\n").length - 1;
    at += part.length;
  };
  /** From inside a template literal to its end or to its next expression. */
  const skipTemplate = (): void => {
    while (at < text.length && text[at] !== "`" && !text.startsWith("${", at))
      skip(text.substr(at, text[at] === "\\" ? 2 : 1));
    if (text[at] === "$") templates.push(depth);
    at += text[at] === "$" ? 2 : 1;
  };

  while (at < text.length) {
    const comment = match(COMMENT);
    const quoted = comment === undefined ? match(QUOTED) : undefined;
    const name = match(NAME);
    if (comment !== undefined) skip(comment);
    else if (quoted !== undefined) {
      if (NAME_TEXT.test(quoted)) found.push({ name: quoted.slice(1, -1), line, isText: true });
      skip(quoted);
    } else if (name !== undefined) {
      found.push({ name, line, isText: false });
      skip(name);
    } else if (isTypeScript && text[at] === "`") {
      at++;
      skipTemplate();
    } else if (isTypeScript && text[at] === "}" && templates.at(-1) === depth) {
      templates.pop();
      at++;
      skipTemplate();
    } else if (isTypeScript && text[at] === "/" && BEFORE_REGEX.test(text.slice(Math.max(0, at - LOOK_BEHIND), at))) {
      skip(match(REGEX) ?? "/");
    } else {
      const character = match(NUMBER) ?? (text[at] as string);
      if (character === "{") depth++;
      if (character === "}") depth--;
      skip(character);
    }
  }
  return found;
}

/** `MOST_FEW_ROWS`, `mostFewRows` and `most-few-rows` as `most few rows`. */
export function wordsOf(name: string): string {
  return name
    .replace(/([a-z\d])([A-Z])/g, "$1 $2")
    .replace(/([A-Z])([A-Z][a-z])/g, "$1 $2")
    .replace(/[-_$.#]+/g, " ")
    .trim()
    .toLowerCase();
}
