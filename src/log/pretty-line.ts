// Formats a log line for people: time, level, message, and the rest as `name=value`; a request is one short line. Lines that are not log records
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
const RED = "\u001b[31m";
const GREEN = "\u001b[32m";
const YELLOW = "\u001b[33m";
const CYAN = "\u001b[36m";
const DIM = "\u001b[2m";
const PLAIN = "\u001b[0m";
/** The colour from each level upward. */
const LEVEL_COLOURS: readonly (readonly [number, string])[] = [
  [50, RED],
  [40, YELLOW],
  [30, GREEN],
  [0, DIM],
];
/** The colour from each HTTP status upward. */
const STATUS_COLOURS: readonly (readonly [number, string])[] = [
  [500, RED],
  [400, YELLOW],
  [300, CYAN],
  [0, GREEN],
];
const CONTROL_CHARACTERS = /[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/gu;
const INDENT = "    ";
/** The message of the line that a server logs when a request is over. */
const REQUEST_MESSAGE = "request";
const MS_PER_SECOND = 1000;

interface LogLine {
  readonly [field: string]: unknown;
  readonly level: number;
  readonly time: number;
}

type Paint = (colour: string, text: string) => string;

/** A JSON log line as readable text; any other text unchanged. */
export function prettyLine(line: string, hasColours = false): string {
  const entry = parseLine(line);
  if (entry === undefined) return line;
  const paint: Paint = (colour, text) => (hasColours && text !== "" ? `${colour}${text}${PLAIN}` : text);
  const { level, time, err, ...rest } = entry;
  const name = (LEVELS[level] ?? String(level)).padEnd(WIDEST_LEVEL);
  const head = `${paint(DIM, timeText(time))} ${paint(colourOf(LEVEL_COLOURS, level), name)}`;
  return `${head} ${requestText(rest, paint) ?? eventText(rest, paint)}\n${errorText(err)}`;
}

function colourOf(colours: readonly (readonly [number, string])[], value: number): string {
  return colours.find(([from]) => value >= from)?.[1] ?? "";
}

/** A request that is over: `POST /v1/chat/completions 200 in 1.2 s`, then its id and what else is known of it. */
function requestText(fields: Readonly<Record<string, unknown>>, paint: Paint): string | undefined {
  const { msg, method, route, path, status, durationMs, ...rest } = fields;
  const place = route ?? path;
  if (msg !== REQUEST_MESSAGE || typeof method !== "string" || typeof place !== "string") return undefined;
  if (typeof status !== "number" || typeof durationMs !== "number") return undefined;
  const shown = paint(colourOf(STATUS_COLOURS, status), String(status));
  return `${harmless(method)} ${harmless(place)} ${shown} in ${durationText(durationMs)}${fieldsText(rest, paint)}`;
}

function eventText({ msg, ...fields }: Readonly<Record<string, unknown>>, paint: Paint): string {
  return `${harmless(String(msg ?? ""))}${fieldsText(fields, paint)}`;
}

function fieldsText(fields: Readonly<Record<string, unknown>>, paint: Paint): string {
  return Object.entries(fields)
    .map(([field, value]) => ` ${paint(DIM, `${harmless(field)}=`)}${harmless(valueText(value))}`)
    .join("");
}

function durationText(ms: number): string {
  return ms < MS_PER_SECOND ? `${ms} ms` : `${(ms / MS_PER_SECOND).toFixed(1)} s`;
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
