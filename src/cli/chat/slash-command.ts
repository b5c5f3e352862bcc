// Commands that start with a slash. The table is used for parsing, completion and /help.

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
    what: 'set the system prompt; without TEXT show it, /system "" removes it',
  },
  reset: { what: "start a new conversation; the system prompt stays" },
  regenerate: { what: "generate another answer to the last message" },
  stats: { what: "show tokens, speed and how full the context is" },
  save: { argument: "FILE", what: "write the conversation to a file" },
  load: { argument: "FILE", what: "continue a conversation from a file" },
  quit: { what: "quit, as Ctrl-D does" },
} as const satisfies Readonly<Record<string, CommandRow>>;

type CommandName = keyof typeof COMMANDS;

/** A parsed command with its argument. */
export interface SlashCommand {
  readonly name: CommandName;
  /** Empty if the command has none. */
  readonly argument: string;
}

/** Names that other programs use for the same commands. */
const ALIASES: Readonly<Record<string, CommandName>> = { exit: "quit", bye: "quit", clear: "reset", "?": "help" };
const MAX_SHOWN_CHARACTERS = 40;
const FORM = /^\/(?<name>\S*)\s*(?<argument>[\s\S]*)$/;

/** Whether a message is a command; two leading slashes escape a message. */
export function isCommand(text: string): boolean {
  return text.startsWith("/") && !text.startsWith("//");
}

/** Removes the slash that escapes a leading slash. */
export function unescapeMessage(text: string): string {
  return text.startsWith("//") ? text.slice(1) : text;
}

/** Parses a command; throws if it is unknown or its argument is missing or unexpected. */
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

/** Commands that start with the typed text. */
export function completeCommand(line: string): readonly string[] {
  if (!line.startsWith("/")) return [];
  return Object.keys(COMMANDS)
    .map((name) => `/${name}`)
    .filter((name) => name.startsWith(line));
}

/** The text of `/help`. */
export function commandList(width = terminalWidth()): string {
  const rows = Object.entries<CommandRow>(COMMANDS).map(
    ([name, { argument, what }]) => [`/${name}${argument === undefined ? "" : ` ${argument}`}`, what] as const,
  );
  const about =
    'A line that ends in \\ continues on the next one; """ opens and closes a message of several lines; pasted text is one message. ' +
    "Start a message with two slashes if it begins with one. Ctrl-C stops an answer, Ctrl-D quits.";
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
    `[chat] there is no command ${quotedForTerminal(`/${word}`, MAX_SHOWN_CHARACTERS)};${guess} /help lists them all; start a message with two slashes if it begins with one`,
    { details: { command: word } },
  );
}

function wrongArgument(name: CommandName, expected: string, found: string): OptionError {
  return new OptionError("OPTION_VALUE", `[chat] /${name}: expected ${expected}, found ${found}`, {
    details: { command: name, expected, found },
  });
}
