// Quotation for POSIX shells: in the completion scripts, and in commands that are printed to be pasted.

/** A text in double quotes, in which nothing is expanded. */
export function doubleQuoted(text: string): string {
  return `"${text.replace(/[\\"$`]/g, String.raw`\$&`)}"`;
}

/** A text in single quotes. */
export function singleQuoted(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

/** A text as one word: in quotes only if it needs them. */
export function shellWord(text: string): string {
  return /^[\w.,:/@%+=-]+$/.test(text) ? text : singleQuoted(text);
}
