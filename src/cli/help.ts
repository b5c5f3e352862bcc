// The help texts, generated from the commands' option tables, so that no option is undocumented, and wrapped to the
// width of the terminal.

import { backendNames } from "../backends/registry.js";
import type { Command } from "./command.js";
import { describeRange } from "./number-value.js";
import type { OptionSpec } from "./option-table.js";
import { terminalWidth, wrapCommand, wrapDefinitions, wrapText } from "./wrap.js";

/** The largest upper bound that the help prints: larger ones are only safeguards. */
const LARGEST_SHOWN_BOUND = 1000;
const EXAMPLE_INDENT = "  ";

/** The text of `rocmforge help`. */
export function generalHelp(commands: readonly Command[], width = terminalWidth()): string {
  return [
    "rocmforge runs GGUF language models.",
    "",
    "usage: rocmforge COMMAND [options]",
    "",
    "commands:",
    ...wrapDefinitions(
      [
        ...commands.map(({ name, summary }) => [name, summary] as const),
        ["help [COMMAND]", "this text, or the help of a command"],
      ],
      width,
    ),
    "",
    "options:",
    ...wrapDefinitions(
      [
        ["-h, --help", "the same as help"],
        ["--version", "the version of this package"],
        ["--verbose", "show an error's code, all problems and their causes"],
      ],
      width,
    ),
    "",
    "examples:",
    ...commands.flatMap(({ examples }) =>
      examples.slice(0, 1).map(({ line }) => wrapCommand(line, width, EXAMPLE_INDENT)),
    ),
    "",
    wrapText(`Without -m the embedded model is used. Backends: auto, ${backendNames().join(", ")}.`, width),
    wrapText("Exit status: 0 success, 1 failure, 2 invalid command line, 130 interrupted.", width),
    "",
  ].join("\n");
}

/** The text that is printed if no command was given. */
export function shortHelp(commands: readonly Command[], width = terminalWidth(process.stderr)): string {
  const names = commands.map(({ name }) => name).join(", ");
  const lines = [
    "usage: rocmforge COMMAND [options]",
    `commands: ${names}`,
    `"rocmforge help" shows more, "rocmforge generate -p TEXT" continues a text.`,
  ];
  return lines.map((line) => `${wrapText(line, width)}\n`).join("");
}

/** The text of `rocmforge help COMMAND`. */
export function commandHelp(command: Command, width = terminalWidth()): string {
  const positionals = command.positionals.map((name) => ` [${name}]`).join("");
  const rest = command.rest === undefined ? "" : ` [-- ${command.rest}]`;
  const sections = new Map<string, (readonly [string, string])[]>();
  for (const [name, spec] of Object.entries(command.options)) {
    const title = spec.section ?? "";
    const section = sections.get(title) ?? [];
    sections.set(title, section);
    section.push([spelling(name, spec), description(spec)]);
  }
  // One table, so that all sections share their columns.
  const rows = wrapDefinitions([...sections.values()].flat(), width);
  const listed = [...sections].flatMap(([title, section]) => [
    "",
    `${title === "" ? "" : `${title} `}options:`,
    ...rows.splice(0, section.length),
  ]);
  return [
    wrapText(`rocmforge ${command.name}: ${command.summary}`, width),
    "",
    wrapText(`usage: rocmforge ${command.name}${positionals} [options]${rest}`, width),
    ...(command.about.length === 0 ? [] : ["", wrapText(command.about.join(" "), width)]),
    ...listed,
    "",
    "examples:",
    ...command.examples.flatMap(({ what, line }) => [remark(what, width), wrapCommand(line, width, EXAMPLE_INDENT)]),
    "",
  ].join("\n");
}

function remark(what: string, width: number): string {
  const mark = `${EXAMPLE_INDENT}# `;
  return `${mark}${wrapText(what, width - mark.length).replaceAll("\n", `\n${mark}`)}`;
}

function spelling(name: string, spec: OptionSpec): string {
  const short = spec.short === undefined ? "    " : `-${spec.short}, `;
  return `${short}--${name}${spec.kind === "flag" ? "" : ` ${spec.placeholder}`}`;
}

function description(spec: OptionSpec): string {
  const notes: string[] = [];
  if ("range" in spec && spec.range.to <= LARGEST_SHOWN_BOUND) notes.push(describeRange(spec.range));
  if (spec.fallback !== undefined) notes.push(`default: ${spec.fallback}`);
  return notes.length === 0 ? spec.description : `${spec.description} (${notes.join("; ")})`;
}
