// What a command is: a name, a table of options, texts for the help, and a function. `defineCommand` ties the types of
// the values to the table and hides them from the dispatcher.

import { OptionError } from "../errors.js";
import { type OptionTable, type OptionValues, parseOptions } from "./option-table.js";
import type { Output } from "./output.js";

/** What a command gets besides its options. */
export interface CommandContext {
  /** The command's result is written here, everything else to stderr. */
  readonly output: Output;
  /** Loads every command, for commands that are about the command line itself. */
  readonly loadCommands: () => Promise<readonly Command[]>;
}

/** An example for the help text. */
interface Example {
  readonly line: string;
  readonly what: string;
}

interface CommandWords {
  readonly name: string;
  readonly summary: string;
  /** A paragraph for the command's own help, wrapped to the terminal's width. */
  readonly about: readonly string[];
  readonly examples: readonly Example[];
  /** Names of the arguments that are not options, all of them optional; a last one that ends in … may be repeated. */
  readonly positionals: readonly string[];
  /** The values of positional arguments by their names, for those that have a fixed set; shells complete them. */
  readonly choices?: Readonly<Record<string, readonly string[]>>;
  /** The name of the arguments after `--`, if the command passes them on to another program. */
  readonly rest?: string;
}

/** A command with the types of its option table. */
interface CommandDefinition<Table extends OptionTable> extends CommandWords {
  readonly options: Table;
  /** Runs the command; returns the exit status. */
  run(
    values: OptionValues<Table>,
    positionals: readonly string[],
    context: CommandContext,
    rest: readonly string[],
  ): Promise<number>;
}

/** A command as the dispatcher sees it. */
export interface Command extends CommandWords {
  readonly options: OptionTable;
  execute(args: readonly string[], context: CommandContext): Promise<number>;
}

/** Makes a command of its definition: parses the options, then runs it. */
export function defineCommand<const Table extends OptionTable>(definition: CommandDefinition<Table>): Command {
  const { run, ...words } = definition;
  return {
    ...words,
    async execute(args, context) {
      const end = words.rest === undefined ? -1 : args.indexOf("--");
      const [own, rest] = end === -1 ? [args, []] : [args.slice(0, end), args.slice(end + 1)];
      const { values, positionals } = parseOptions(words.name, definition.options, own);
      const isRepeatable = words.positionals.at(-1)?.endsWith("…") === true;
      if (!isRepeatable && positionals.length > words.positionals.length)
        throw unexpectedArgument(words.name, positionals[words.positionals.length]);
      return await run(values, positionals, context, rest);
    },
  };
}

function unexpectedArgument(command: string, argument: string): OptionError {
  return new OptionError(
    "OPTION_UNKNOWN",
    `[${command}] unexpected argument "${argument}"; "rocmforge ${command} --help" lists the arguments`,
    { details: { argument } },
  );
}
