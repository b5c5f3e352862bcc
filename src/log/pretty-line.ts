// Formats a log line for a terminal: time, level, message, and the rest as `name=value`. Lines that are not log records
// pass unchanged. Invariant: nothing that a client sent can control the terminal.

const LEVELS: Readonly<Record<number, string>> = {
  10: "trace",
  20: "debug",
  30: "info",
  40: "warn",
  50: "error",
  60: "fatal",
};
const WIDEST_LEVEL = 5;
/** The colour from each level upward; lower levels have none. */
const COLOURS: readonly (readonly [number, string])[] = [
  [50, "\u001b[31m"],
  [40, "\u001b[33m"],
];
const DIM = "\u001b[2m";
const PLAIN = "\u001b[0m";
const CONTROL_CHARACTERS = /[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/gu;
const INDENT = "    ";

interface LogLine {
  readonly [field: string]: unknown;
  readonly level: number;
  readonly time: number;
}

/** A JSON log line as readable text; any other text unchanged. */
export function prettyLine(line: string): string {
  const entry = parseLine(line);
  if (entry === undefined) return line;
  const { level, time, msg, err, ...fields } = entry;
  const [, colour = ""] = COLOURS.find(([from]) => level >= from) ?? [];
  const name = (LEVELS[level] ?? String(level)).padEnd(WIDEST_LEVEL);
  const rest = Object.entries(fields).map(
    ([field, value]) => ` ${DIM}${harmless(field)}=${PLAIN}${harmless(valueText(value))}`,
  );
  const head = `${DIM}${timeText(time)}${PLAIN} ${colour}${name}${colour === "" ? "" : PLAIN} ${harmless(String(msg ?? ""))}`;
  return `${head}${rest.join("")}\n${errorText(err)}`;
}

function parseLine(line: string): LogLine | undefined {
  if (!line.startsWith("{")) return undefined;
  try {
    const entry = JSON.parse(line) as Partial<LogLine>;
    return typeof entry.level === "number" && typeof entry.time === "number" ? (entry as LogLine) : undefined;
  } catch {
    return undefined;
  }
}

/** The local time of day. */
function timeText(time: number): string {
  const date = new Date(time);
  const two = (count: number): string => String(count).padStart(2, "0");
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

function valueText(value: unknown): string {
  return typeof value === "string" && /^[^\s"=]+$/.test(value) ? value : JSON.stringify(value);
}

function errorText(error: unknown): string {
  if (typeof error !== "object" || error === null) return "";
  const { stack, message } = error as { readonly stack?: unknown; readonly message?: unknown };
  const text = typeof stack === "string" ? stack : JSON.stringify(message ?? error);
  return text
    .split("\n")
    .map((part) => `${INDENT}${harmless(part)}\n`)
    .join("");
}

function harmless(text: string): string {
  return text.replace(CONTROL_CHARACTERS, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`);
}
