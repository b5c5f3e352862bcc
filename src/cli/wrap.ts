// Text for a terminal of any width, broken between words and never inside one: what a terminal breaks by itself it breaks
// anywhere. A word longer than a line stands on a line of its own.

/** Where there is no terminal, unless the environment says otherwise. */
const DEFAULT_WIDTH = 100;
/** Narrower ones are not worth breaking for. */
const NARROWEST = 40;
const INDENT = "  ";
const GAP = "  ";
/** Less room than this beside the terms, and the descriptions go below them. */
const LEAST_DESCRIPTION_WIDTH = 32;
const BELOW = " ".repeat(8);

/** How many characters a line of this stream may have. */
export function terminalWidth(
  stream: { readonly columns?: number | undefined } = process.stdout,
  environment: NodeJS.ProcessEnv = process.env,
): number {
  const width = stream.columns ?? Number(environment["COLUMNS"] ?? DEFAULT_WIDTH);
  return Number.isInteger(width) && width > 0 ? Math.max(NARROWEST, width) : DEFAULT_WIDTH;
}

/** Lines of at most `width` characters, and at least a word. */
export function wrapText(text: string, width: number): string {
  return fill(
    text.split(/\s+/).filter((word) => word !== ""),
    width,
    "",
  );
}

/** A command that still is one when it is copied: broken between its arguments, each line but the last ending in a backslash. */
export function wrapCommand(line: string, width: number, indent: string): string {
  const words = line.match(/(?:[^\s"']|"[^"]*"|'[^']*')+/g) ?? [];
  const hanging = `${indent}  `;
  return indent + fill(words, width - hanging.length, " \\").replaceAll("\n", `\n${hanging}`);
}

/** As many words in each line as there is room for; a line that goes on has the ending, too. */
function fill(words: readonly string[], width: number, ending: string): string {
  const lines: string[] = [];
  let line = "";
  for (const [index, word] of words.entries()) {
    const room = width - (index === words.length - 1 ? 0 : ending.length);
    if (line !== "" && line.length + 1 + word.length > room) {
      lines.push(line + ending);
      line = word;
    } else line = line === "" ? word : `${line} ${word}`;
  }
  return [...lines, line].join("\n");
}

/** Terms and what they mean: in two columns if there is room, else each description below its term. One text per row. */
export function wrapDefinitions(rows: readonly (readonly [term: string, meaning: string])[], width: number): string[] {
  const termWidth = Math.max(0, ...rows.map(([term]) => term.length));
  const column = INDENT.length + termWidth + GAP.length;
  if (width - column < LEAST_DESCRIPTION_WIDTH) {
    return rows.map(
      ([term, meaning]) =>
        `${INDENT}${term.trimEnd()}\n${BELOW}${wrapText(meaning, width - BELOW.length).replaceAll("\n", `\n${BELOW}`)}`,
    );
  }
  const hanging = " ".repeat(column);
  return rows.map(([term, meaning]) =>
    `${INDENT}${term.padEnd(termWidth)}${GAP}${wrapText(meaning, width - column).replaceAll("\n", `\n${hanging}`)}`.trimEnd(),
  );
}
