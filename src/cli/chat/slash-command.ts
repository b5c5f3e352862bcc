// Commands that begin with a slash. The table is what is parsed, completed and listed by /help.

import { OptionError } from "../../errors.js";
import { didYouMean } from "../../nearest.js";
import { quotedForTerminal } from "../format.js";
import { terminalWidth, wrapDefinitions, wrapText } from "../wrap.js";

interface CommandRow {
  /** Placeholder of the argument; undefined if there is none. */
  readonly argument?: string;
  readonly isOptional?: boolean;
  readonly what: string;
}

const COMMANDS = {
  help: { what: "this list" },
  system: {
    argument: "TEXT",
    isOptional: true,
    what: 'what the model is told first; alone shows it, /system "" removes it',
  },
  reset: { what: "begin anew; the system text stays" },
  regenerate: { what: "another answer to the last message" },
  stats: { what: "tokens, speed, and how full the context is" },
  save: { argument: "FILE", what: "write the conversation to a file" },
  load: { argument: "FILE", what: "go on with one from a file" },
  quit: { what: "leave; Ctrl-D does the same" },
} as const satisfies Readonly<Record<string, CommandRow>>;

type CommandName = keyof typeof COMMANDS;

export interface SlashCommand {
  readonly name: CommandName;
  /** Empty if none was given. */
  readonly argument: string;
}

/** Words of other programs for the same. */
const ALIASES: Readonly<Record<string, CommandName>> = { exit: "quit", bye: "quit", "?": "help" };
const MAX_SHOWN_CHARACTERS = 40;
const FORM = /^\/(?<name>\S*)\s*(?<argument>[\s\S]*)$/;

export function isCommand(text: string): boolean {
  return text.startsWith("/") && !text.startsWith("//");
}

/** Two slashes in front stand for one that is meant literally. */
export function unescapeMessage(text: string): string {
  return text.startsWith("//") ? text.slice(1) : text;
}

export function parseCommand(text: string): SlashCommand {
  const { name: word = "", argument = "" } = FORM.exec(text)?.groups ?? {};
  const name = Object.hasOwn(ALIASES, word) ? ALIASES[word] : word;
  if (!isName(name)) throw unknownCommand(word);
  const row: CommandRow = COMMANDS[name];
  const trimmed = argument.trim();
  if (row.argument === undefined && trimmed !== "")
    throw wrongArgument(name, "nothing after it", quotedForTerminal(trimmed, MAX_SHOWN_CHARACTERS));
  if (row.argument !== undefined && row.isOptional !== true && trimmed === "")
    throw wrongArgument(name, `${row.argument} after it`, "nothing");
  return { name, argument: trimmed };
}

export function completeCommand(line: string): readonly string[] {
  if (!line.startsWith("/")) return [];
  return Object.keys(COMMANDS)
    .map((name) => `/${name}`)
    .filter((name) => name.startsWith(line));
}

export function commandList(width = terminalWidth()): string {
  const rows = Object.entries<CommandRow>(COMMANDS).map(
    ([name, { argument, what }]) => [`/${name}${argument === undefined ? "" : ` ${argument}`}`, what] as const,
  );
  const about =
    'A line that ends in \\ goes on in the next one; """ opens and closes a message of several lines; pasted text is one message. ' +
    "A message that begins with a slash is written with two. Ctrl-C stops an answer, Ctrl-D leaves.";
  return [...wrapDefinitions(rows, width), "", `  ${wrapText(about, width - 2).replaceAll("\n", "\n  ")}`, ""].join(
    "\n",
  );
}

function isName(word: string): word is CommandName {
  return Object.hasOwn(COMMANDS, word);
}

function unknownCommand(word: string): OptionError {
  const guess = didYouMean(word, Object.keys(COMMANDS), (name) => `/${name}`);
  return new OptionError(
    "OPTION_UNKNOWN",
    `[chat] there is no command ${quotedForTerminal(`/${word}`, MAX_SHOWN_CHARACTERS)};${guess} /help lists them all, and a message that begins with a slash is written with two`,
    { details: { command: word } },
  );
}

function wrongArgument(name: CommandName, expected: string, found: string): OptionError {
  return new OptionError("OPTION_VALUE", `[chat] /${name}: expected ${expected}, found ${found}`, {
    details: { command: name, expected, found },
  });
}
