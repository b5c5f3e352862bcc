// What a shell can complete on the command line, as data from the commands' own tables: the scripts for each shell are
// written from it, so that none of them can drift from the parser.

import type { Command } from "../command.js";
import type { OptionSpec } from "../option-table.js";

/** What a shell offers for an argument. */
export type ArgumentCompletion =
  | { readonly kind: "nothing" }
  | { readonly kind: "files" }
  /** Names of models in the caches. */
  | { readonly kind: "models" }
  /** Names of models in the caches, and files. */
  | { readonly kind: "models-and-files" }
  | { readonly kind: "values"; readonly values: readonly string[] };

/** An option of a command. */
export interface CompletedOption {
  readonly name: string;
  readonly short: string | undefined;
  readonly description: string;
  /** What the value is called; undefined for an option without a value. */
  readonly placeholder: string | undefined;
  readonly value: ArgumentCompletion;
  readonly isRepeatable: boolean;
}

/** A positional argument of a command. */
export interface CompletedPositional {
  readonly name: string;
  readonly value: ArgumentCompletion;
  readonly isRepeatable: boolean;
}

/** A command. */
export interface CompletedCommand {
  readonly name: string;
  readonly summary: string;
  readonly options: readonly CompletedOption[];
  readonly positionals: readonly CompletedPositional[];
  /** Whether arguments after `--` belong to another program. */
  readonly hasRest: boolean;
}

/** The name of the command that shows help, which is not in the table of commands. */
const HELP = "help";
const MODEL_OPTION = "model";
const REPEATED = "…";
const NOTHING: ArgumentCompletion = { kind: "nothing" };

/** Everything that can be completed. */
export function completionTree(commands: readonly Command[]): readonly CompletedCommand[] {
  const help: CompletedCommand = {
    name: HELP,
    summary: "shows the help of a command",
    options: [],
    positionals: [
      { name: "COMMAND", value: { kind: "values", values: commands.map(({ name }) => name) }, isRepeatable: false },
    ],
    hasRest: false,
  };
  return [...commands.map(completedCommand), help];
}

function completedCommand({ name, summary, options, positionals, choices = {}, rest }: Command): CompletedCommand {
  return {
    name,
    summary,
    options: Object.entries(options).map(([option, spec]) => completedOption(option, spec)),
    positionals: positionals.map((positional) => completedPositional(positional, choices)),
    hasRest: rest !== undefined,
  };
}

function completedOption(name: string, spec: OptionSpec): CompletedOption {
  return {
    name,
    short: spec.short,
    description: spec.description,
    placeholder: spec.kind === "flag" ? undefined : spec.placeholder,
    value: optionValue(name, spec),
    isRepeatable: spec.kind === "list",
  };
}

function optionValue(name: string, spec: OptionSpec): ArgumentCompletion {
  if (spec.kind === "flag" || "range" in spec) return NOTHING;
  if (spec.values !== undefined) return { kind: "values", values: spec.values };
  if (name === MODEL_OPTION) return { kind: "models-and-files" };
  return spec.kind === "path" ? { kind: "files" } : NOTHING;
}

function completedPositional(name: string, choices: NonNullable<Command["choices"]>): CompletedPositional {
  const isRepeatable = name.endsWith(REPEATED);
  if (Object.hasOwn(choices, name)) return { name, value: { kind: "values", values: choices[name] }, isRepeatable };
  // Commands that take several models work on the caches, the others on files, too.
  return { name, value: { kind: isRepeatable ? "models" : "models-and-files" }, isRepeatable };
}
