// A command's options as a table, from which the parser, the help text and the types of the values are derived. Strict:
// an unknown name, a missing value and a value of another kind are refused.

import { parseArgs } from "node:util";
import { OptionError } from "../errors.js";
import { didYouMean } from "../nearest.js";
import { expandHome } from "./home-path.js";
import { type NumberRange, parseNumber } from "./number-value.js";

interface OptionBase {
  readonly short?: string;
  readonly description: string;
  /** Heading in the help text; without one, the option is listed with the command's own. */
  readonly section?: string;
  /** The value if the option is not given, for the help text. */
  readonly fallback?: string | number;
}

/** An option without a value. */
interface FlagOption extends OptionBase {
  readonly kind: "flag";
}

/** An option whose value is text. */
interface TextOption extends OptionBase {
  /** A path may begin with ~; a list option may be repeated. */
  readonly kind: "text" | "path" | "list";
  readonly placeholder: string;
  /** The values that there are, which shells complete; the command or the library checks the value. */
  readonly values?: readonly string[];
}

/** An option whose value is a number. */
export interface NumberOption extends OptionBase {
  /** A count is a whole number. */
  readonly kind: "count" | "number";
  readonly placeholder: string;
  readonly range: NumberRange;
  /** What to do instead, if users often mean something else. */
  readonly hint?: string;
}

/** An option of a command. */
export type OptionSpec = FlagOption | TextOption | NumberOption;
/** Options by long name. */
export type OptionTable = Readonly<Record<string, OptionSpec>>;

type ValueOf<Spec extends OptionSpec> = Spec["kind"] extends "flag"
  ? boolean
  : Spec["kind"] extends "list"
    ? readonly string[]
    : Spec["kind"] extends "text" | "path"
      ? string | undefined
      : number | undefined;

/** The parsed values of a table, by option name. */
export type OptionValues<Table extends OptionTable> = { readonly [Name in keyof Table]: ValueOf<Table[Name]> };

/** The values and positional arguments of a command line. */
interface ParsedArguments<Table extends OptionTable> {
  readonly values: OptionValues<Table>;
  readonly positionals: readonly string[];
}

type MutableValues = Record<string, boolean | number | string | string[] | undefined>;

/** Parses arguments; messages name `command`, and the last of a repeated option counts. */
export function parseOptions<Table extends OptionTable>(
  command: string,
  table: Table,
  args: readonly string[],
): ParsedArguments<Table> {
  const config = Object.fromEntries(
    Object.entries(table).map(([name, { kind, short }]) => [
      name,
      { type: kind === "flag" ? ("boolean" as const) : ("string" as const), ...(short === undefined ? {} : { short }) },
    ]),
  );
  // Not strict, because parseArgs' own strictness refuses `--temp -1` and suggests no names; the loop below is strict.
  const { tokens } = parseArgs({
    args: [...args],
    options: config,
    strict: false,
    allowPositionals: true,
    tokens: true,
  });
  const values: MutableValues = {};
  for (const [name, { kind }] of Object.entries(table))
    values[name] = kind === "flag" ? false : kind === "list" ? [] : undefined;
  const positionals: string[] = [];
  for (const token of tokens) {
    if (token.kind === "positional") positionals.push(token.value);
    if (token.kind !== "option") continue;
    if (!Object.hasOwn(table, token.name)) throw unknownOption(command, table, token.rawName);
    assign(command, table, values, token);
  }
  return { values: values as OptionValues<Table>, positionals };
}

interface OptionToken {
  readonly name: string;
  readonly rawName: string;
  readonly value: string | undefined;
  readonly inlineValue: boolean | undefined;
}

function assign(
  command: string,
  table: OptionTable,
  values: MutableValues,
  { name, rawName, value, inlineValue }: OptionToken,
): void {
  const spec = table[name];
  if (spec.kind === "flag") {
    if (value !== undefined) throw wrongValue(command, name, "no value", `"${value}"`);
    values[name] = true;
    return;
  }
  if (value === undefined) throw wrongValue(command, name, `${spec.placeholder} after ${rawName}`, "nothing");
  if (inlineValue !== true && isOption(table, value)) {
    const advice = "range" in spec ? "" : `; if it is meant as text, write --${name}=${value}`;
    throw wrongValue(command, name, `${spec.placeholder} after ${rawName}`, `the option ${value}${advice}`);
  }
  switch (spec.kind) {
    case "text":
      values[name] = value;
      return;
    case "path":
      values[name] = expandHome(value);
      return;
    case "list":
      (values[name] as string[]).push(value);
      return;
    case "count":
    case "number":
      values[name] = numberOf(command, name, spec, value);
      return;
    default:
      spec satisfies never;
  }
}

function numberOf(command: string, name: string, { kind, range, hint }: NumberOption, text: string): number {
  const result = parseNumber(text, range, kind === "count");
  if (typeof result === "number") return result;
  throw wrongValue(command, name, result.expected, `"${text}"${hint === undefined ? "" : `; ${hint}`}`);
}

/** Whether an argument is spelled like one of the options, and so was hardly meant as a value. */
function isOption(table: OptionTable, argument: string): boolean {
  if (argument.startsWith("--")) return Object.hasOwn(table, argument.slice(2).split("=")[0]);
  return (
    argument.length === 2 && argument.startsWith("-") && Object.values(table).some(({ short }) => short === argument[1])
  );
}

/** The error for an invalid value of an option. */
export function wrongValue(command: string, name: string, expected: string, found: string): OptionError {
  return new OptionError("OPTION_VALUE", `[${command}] --${name}: expected ${expected}, found ${found}`, {
    details: { option: name, expected, found },
  });
}

function unknownOption(command: string, table: OptionTable, rawName: string): OptionError {
  const guess = didYouMean(rawName, Object.keys(table), (name) => `--${name}`);
  return new OptionError(
    "OPTION_UNKNOWN",
    `[${command}] unknown option ${rawName};${guess} "rocmforge ${command} --help" lists them all`,
    {
      details: { option: rawName },
    },
  );
}
