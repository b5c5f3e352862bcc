// Wraps text for a terminal of any width, between words and never inside one: terminals themselves break lines
// anywhere. A word longer than a line is on a line of its own.

/** The width if there is no terminal and the environment sets none. */
const DEFAULT_WIDTH = 100;
/** The narrowest width: a narrower terminal is not worth wrapping for. */
const NARROWEST = 40;
const INDENT = "  ";
const GAP = "  ";
/** If less room than this is left beside the terms, the descriptions go below them. */
const LEAST_DESCRIPTION_WIDTH = 32;
const BELOW = " ".repeat(8);

/** How many characters fit a line of this stream. */
export function terminalWidth(
  stream: { readonly columns?: number | undefined } = process.stdout,
  environment: NodeJS.ProcessEnv = process.env,
): number {
  const width = stream.columns ?? Number(environment["COLUMNS"] ?? DEFAULT_WIDTH);
  return Number.isInteger(width) && width > 0 ? Math.max(NARROWEST, width) : DEFAULT_WIDTH;
}

/** Lines of at most `width` characters, and at least one word. */
export function wrapText(text: string, width: number): string {
  return fill(
    text.split(/\s+/).filter((word) => word !== ""),
    width,
    "",
  );
}

/**
 * A command that still works when it is copied: broken between its arguments, each line but the last ending in a
 * backslash.
 */
export function wrapCommand(line: string, width: number, indent: string): string {
  const words = line.match(/(?:[^\s"']|"[^"]*"|'[^']*')+/g) ?? [];
  const hanging = `${indent}  `;
  return indent + fill(words, width - hanging.length, " \\").replaceAll("\n", `\n${hanging}`);
}

/** As many words in each line as fit; every line but the last has `ending` appended. */
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

/**
 * Terms and their meanings: in two columns if there is room, else each description below its term. One text per row.
 */
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
