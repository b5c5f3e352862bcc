// How the commands print things: sizes, counts, columns, bars, and untrusted text from files.

const UNITS = ["bytes", "kB", "MB", "GB", "TB", "PB"] as const;
const BAR_CHARACTER = "█";

/** A size with three significant digits: "6.71 MB", "384 bytes". */
export function formatBytes(bytes: number): string {
  let unit = 0;
  let value = bytes;
  // 999.5 would be printed as 1000.
  while (value >= 999.5 && unit < UNITS.length - 1) {
    value /= 1000;
    unit++;
  }
  const digits = unit === 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return `${value.toFixed(digits)} ${bytes === 1 ? "byte" : UNITS[unit]}`;
}

/** A number of parameters with three significant digits: "30.5 B", "596 M". */
export function formatParameters(count: number): string {
  const [unit, name] = count >= 999.5e6 ? [1e9, "B"] : count >= 999.5e3 ? [1e6, "M"] : [1e3, "k"];
  const value = count / unit;
  return `${value.toFixed(value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2)} ${name}`;
}

/** The parameters of a model: "30.5 B, 3.34 B active". */
export function describeCount({ total, active }: { readonly total: number; readonly active: number }): string {
  return active === total ? formatParameters(total) : `${formatParameters(total)}, ${formatParameters(active)} active`;
}

/** A count with thousands separators: "128,256". */
export function formatCount(count: number): string {
  return String(count).replace(/\B(?=(?:\d{3})+$)/g, ",");
}

/** A count with its noun: "1 token", "128,256 tokens". */
export function countOf(count: number, noun: string): string {
  return `${formatCount(count)} ${noun}${count === 1 ? "" : "s"}`;
}

/** A duration: "0.4 s", "12 s", "3 min 20 s". */
export function formatDuration(ms: number): string {
  const seconds = ms / 1000;
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  if (seconds < 59.5) return `${Math.round(seconds)} s`;
  const whole = Math.round(seconds);
  return `${Math.floor(whole / 60)} min ${whole % 60} s`;
}

/** A rate with three significant digits: "12.3". */
export function formatRate(perSecond: number): string {
  return perSecond.toFixed(perSecond < 100 ? 1 : 0);
}

/** A share as a percentage: "12.3 %". */
export function formatShare(share: number): string {
  return `${(100 * share).toFixed(1)} %`;
}

/** The alignment of a column. */
type Alignment = "left" | "right";

/** Rows in columns, two spaces apart; the last column is not padded. */
export function formatTable(
  rows: readonly (readonly string[])[],
  alignments: readonly Alignment[] = [],
  indent = "  ",
): string {
  const widths: number[] = [];
  for (const row of rows) {
    for (const [column, cell] of row.entries()) widths[column] = Math.max(widths[column] ?? 0, cell.length);
  }
  const pad = (cell: string, column: number): string =>
    alignments[column] === "right" ? cell.padStart(widths[column]) : cell.padEnd(widths[column]);
  return rows.map((row) => `${indent}${row.map(pad).join("  ")}`.trimEnd()).join("\n");
}

/** A bar of at most `width` characters; any share above 0 has at least one. */
export function formatBar(share: number, width: number): string {
  const length = share > 0 ? Math.max(1, Math.round(share * width)) : 0;
  return BAR_CHARACTER.repeat(length);
}

/** Ascending numbers as ranges: "0-3, 5, 7-8". */
export function formatRanges(numbers: readonly number[]): string {
  const ranges: { first: number; last: number }[] = [];
  for (const number of numbers) {
    const open = ranges.at(-1);
    if (open !== undefined && open.last === number - 1) open.last = number;
    else ranges.push({ first: number, last: number });
  }
  return ranges.map(({ first, last }) => (first === last ? String(first) : `${first}-${last}`)).join(", ");
}

/** Characters that a terminal would execute or reorder instead of printing. */
const UNPRINTABLE = /[\p{Cc}\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu;

/**
 * Untrusted text for a terminal: control characters become escapes; `keep` says whether line breaks, or also tabs, are
 * kept.
 */
export function printable(text: string, keep: "nothing" | "line-breaks" | "layout" = "nothing"): string {
  return text.replace(UNPRINTABLE, (character) => {
    if (character === "\n") return keep === "nothing" ? String.raw`\n` : character;
    if (character === "\t") return keep === "layout" ? character : String.raw`\t`;
    if (character === "\r") return keep === "layout" ? "" : String.raw`\r`;
    return String.raw`\u{${character.codePointAt(0)?.toString(16)}}`;
  });
}

/** Untrusted text in quotation marks, shortened if it is long. */
export function quotedForTerminal(text: string, maxCharacters: number): string {
  if (text.length <= maxCharacters) return `"${printable(text)}"`;
  return `"${printable(text.slice(0, maxCharacters))}…" (${countOf(text.length, "character")})`;
}

/** "kvHeadCount" as "kv head count". */
export function wordsOf(camelCase: string): string {
  return camelCase.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
}
