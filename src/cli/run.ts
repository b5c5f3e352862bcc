// From arguments to an exit status: finds the command, runs it, and prints any error as one readable line. Statuses: 0
// success, 1 failure, 2 invalid command line, 128 + n ended by a signal.

import { readFileSync } from "node:fs";
import { OptionError, RocmForgeError } from "../errors.js";
import { nearestNames } from "../nearest.js";
import type { Command } from "./command.js";
import { COMMAND_NAMES, loadCommand, loadCommands } from "./commands.js";
import { printable } from "./format.js";
import { Interrupted } from "./interrupt.js";
import { Output } from "./output.js";

const FAILED = 1;
const WRONG_USAGE = 2;
const HELP_WORDS = ["help", "--help", "-h"];

/** Runs a command line and returns the exit status. */
export async function run(args: readonly string[]): Promise<number> {
  // A closed stderr must not end the command.
  process.stderr.on("error", () => {});
  const output = new Output(process.stdout);
  try {
    return await dispatch(args, output);
  } catch (error) {
    if (error instanceof Interrupted) {
      process.stderr.write(`rocmforge: ${printable(error.message)}\n`);
      return error.exitStatus;
    }
    process.stderr.write(await describeError(error, args[0] ?? "rocmforge", args.includes("--verbose")));
    const isUsage =
      error instanceof OptionError || (error instanceof RocmForgeError && error.code === "BACKEND_UNKNOWN");
    return isUsage ? WRONG_USAGE : FAILED;
  }
}

async function dispatch(args: readonly string[], output: Output): Promise<number> {
  const [first, ...rest] = args;
  if (first === undefined) {
    process.stderr.write((await import("./help.js")).shortHelp(await loadCommands()));
    return WRONG_USAGE;
  }
  if (HELP_WORDS.includes(first)) {
    const { commandHelp, generalHelp } = await import("./help.js");
    const topic = rest.find((argument) => !argument.startsWith("-"));
    await output.write(topic === undefined ? generalHelp(await loadCommands()) : commandHelp(await findCommand(topic)));
    return 0;
  }
  if (first === "--version") {
    await output.write(`${packageVersion()}\n`);
    return 0;
  }
  const command = await findCommand(first);
  if (asksForHelp(rest)) {
    await output.write((await import("./help.js")).commandHelp(command));
    return 0;
  }
  return await command.execute(rest, { output, loadCommands });
}

function asksForHelp(args: readonly string[]): boolean {
  const end = args.indexOf("--");
  return (end === -1 ? args : args.slice(0, end)).some((argument) => argument === "--help" || argument === "-h");
}

async function findCommand(name: string): Promise<Command> {
  const command = await loadCommand(name);
  if (command !== undefined) return command;
  const names = COMMAND_NAMES;
  if (name.startsWith("-")) {
    throw new OptionError(
      "OPTION_UNKNOWN",
      `expected a command first (${names.join(", ")}), found the option ${name}`,
      {
        details: { argument: name },
      },
    );
  }
  const [nearest] = nearestNames(name, names, 1);
  const advice = nearest === undefined ? `the commands are ${names.join(", ")};` : `did you mean "${nearest}"?`;
  throw new OptionError("OPTION_UNKNOWN", `there is no command "${name}"; ${advice} "rocmforge help" shows more`, {
    details: { command: name, nearest },
  });
}

function packageVersion(): string {
  const { version } = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")) as {
    readonly version: string;
  };
  return version;
}

/** One line with the reason; further problems, the code, the stack and the causes only with --verbose. */
async function describeError(thrown: unknown, command: string, verbose: boolean): Promise<string> {
  // Loaded only now: a start should not wait for code that it does not need.
  const [{ typedError }, { inCommandLineWords, messageFor }] = await Promise.all([
    import("../system-failure.js"),
    import("./option-words.js"),
  ]);
  const error = typedError(command, thrown);
  const lines = [
    `rocmforge: ${verbose && error instanceof RocmForgeError ? `${error.code}: ` : ""}${firstLine(error, (known) => messageFor(known, command), verbose)}`,
  ];
  if (verbose && error instanceof RocmForgeError)
    lines.push(...error.more.map((sentence) => `  ${inCommandLineWords(sentence)}`));
  for (let current = error; verbose && current instanceof Error; current = current.cause) {
    if (current !== error) lines.push(`caused by ${current.name}: ${current.message}`);
    lines.push(...(current.stack ?? "").split("\n").filter((frame) => /^\s+at /.test(frame)));
  }
  return `${printable(lines.join("\n"), "line-breaks")}\n`;
}

function firstLine(error: unknown, wordsOf: (error: RocmForgeError) => string, verbose: boolean): string {
  if (!(error instanceof RocmForgeError)) {
    return `this is a bug in rocmforge: ${error instanceof Error ? error.message : String(error)}${verbose ? "" : "; --verbose shows where"}`;
  }
  const hint = error.more.length > 0 && !verbose ? " (--verbose lists them all)" : "";
  return `${wordsOf(error)}${hint}`;
}
