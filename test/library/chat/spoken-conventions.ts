// What the spellings of the model families' conventions have in common: a short template whose assistant writes calls in
// the family's way, and the parts of calls.

import type { Family } from "./family-templates.js";

export interface SpokenCall {
  readonly name: string;
  readonly given: Readonly<Record<string, unknown>>;
}

export interface ConventionFamily extends Family {
  /** The name of its convention. */
  readonly convention: string;
  readonly template: string;
  /** What the model writes to think, behind the prompt. */
  readonly think?: (text: string) => string;
  /** Whether its template opens a thought whatever the request says. */
  readonly alwaysThinks?: true;
  /** What it writes to answer, behind thoughts or the prompt. */
  readonly answer?: (text: string) => string;
  /** What it writes in front of a call; the words on a line of their own by default. */
  readonly preamble?: (text: string) => string;
  /** What it writes to call tools. */
  readonly call: (calls: readonly SpokenCall[]) => string;
  /** A call that is not valid. */
  readonly broken: string;
  /** Whether a turn has one call at most. */
  readonly oneCall?: true;
}

export const json = JSON.stringify;
export const GIVEN = "c.function.arguments | tojson";
export const NAME = "c.function.name";

/** A template whose assistant writes calls like this; `shown` is Jinja for one call. */
export function turns(shown: string, generation = "<|turn|>assistant\\n", think = ["<think>", "</think>"]): string {
  return (
    `{{- bos_token }}{% if tools %}{{- '<|turn|>system\\n' ~ (tools | tojson) ~ '<|stop|>' }}{% endif %}` +
    `{% for m in messages %}{{- '<|turn|>' ~ m.role ~ '\\n' }}{% if m.reasoning_content %}{{- '${think[0]}' ~ m.reasoning_content ~ '${think[1]}' }}{% endif %}` +
    `{{- m.content or '' }}{% for c in m.tool_calls or [] %}${shown}{% endfor %}{{- '<|stop|>' }}{% endfor %}` +
    `{% if add_generation_prompt %}{{- '${generation}' }}{% endif %}`
  );
}

/** Jinja for a call with a field for each argument. */
export function fields(before: string, field: readonly [string, string, string], behind: string): string {
  return (
    `{{- '${before}' }}{% for k, v in c.function.arguments.items() %}` +
    `{{- '${field[0]}' ~ k ~ '${field[1]}' ~ (v if v is string else v | tojson) ~ '${field[2]}' }}{% endfor %}{{- '${behind}' }}`
  );
}

export const text = (value: unknown): string => (typeof value === "string" ? value : json(value));
export const pairs = (given: SpokenCall["given"], one: (key: string, value: unknown) => string): string =>
  Object.entries(given)
    .map(([key, value]) => one(key, value))
    .join("");
export const think = (thought: string): string => `<think>\n${thought}\n</think>\n\n`;
export const hermes = ({ name, given }: SpokenCall, key = "arguments"): string =>
  `{"name": ${json(name)}, "${key}": ${json(given)}}`;
export const list = (calls: readonly SpokenCall[]): string => `[${calls.map((call) => hermes(call)).join(", ")}]`;
const literal = (value: unknown): string => (typeof value === "boolean" ? (value ? "True" : "False") : json(value));
export const python = ({ name, given }: SpokenCall, written = literal): string =>
  `${name}(${Object.entries(given)
    .map(([key, value]) => `${key}=${written(value)}`)
    .join(", ")})`;
export const TURN = ["<|turn|>", "<|stop|>"];
export const THINK = ["<think>", "</think>"];

/** A family, without what they all have in common. */
export type Spoken = Omit<ConventionFamily, "vocabulary" | "tools">;
