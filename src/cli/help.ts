// The help texts, made from the commands' own tables, so that an option cannot exist without being listed.

import { backendNames } from "../index.js";
import type { Command } from "./command.js";
import { formatTable } from "./format.js";
import { describeRange } from "./number-value.js";
import type { OptionSpec } from "./option-table.js";

/** Ranges whose end is only a safeguard are noise to a reader. */
const LARGEST_SHOWN_BOUND = 1000;

export function generalHelp(commands: readonly Command[]): string {
  return [
    "rocmforge runs GGUF language models.",
    "",
    "usage: rocmforge COMMAND [options]",
    "",
    "commands:",
    formatTable([...commands.map(({ name, summary }) => [name, summary]), ["help [COMMAND]", "this text, or all about a command"]]),
    "",
    "options:",
    formatTable([
      ["-h, --help", "the same as help"],
      ["--version", "the version of this package"],
      ["--verbose", "show where an error comes from"],
    ]),
    "",
    "examples:",
    ...commands.flatMap(({ examples }) => examples.slice(0, 1).map(({ line }) => `  ${line}`)),
    "",
    `Without -m the embedded model is used. Backends: auto, ${backendNames().join(", ")}.`,
    "Exit status: 0 done, 1 failed, 2 the command line is wrong, 130 interrupted.",
    "",
  ].join("\n");
}

export function shortHelp(commands: readonly Command[]): string {
  const names = commands.map(({ name }) => name).join(", ");
  return `usage: rocmforge COMMAND [options]\ncommands: ${names}\n"rocmforge help" tells more, "rocmforge generate -p TEXT" writes a story.\n`;
}

export function commandHelp(command: Command): string {
  const positionals = command.positionals.map((name) => ` [${name}]`).join("");
  const rows = new Map<string, string[][]>();
  for (const [name, spec] of Object.entries(command.options)) {
    const title = spec.section ?? "";
    const section = rows.get(title) ?? [];
    rows.set(title, section);
    section.push([spelling(name, spec), description(spec)]);
  }
  // One table, so that all sections share their columns.
  const lines = formatTable([...rows.values()].flat()).split("\n");
  const listed = [...rows].flatMap(([title, section]) => ["", `${title === "" ? "" : `${title} `}options:`, ...lines.splice(0, section.length)]);
  return [
    `rocmforge ${command.name}: ${command.summary}`,
    "",
    `usage: rocmforge ${command.name}${positionals} [options]`,
    ...(command.about.length === 0 ? [] : ["", ...command.about]),
    ...listed,
    "",
    "examples:",
    ...command.examples.flatMap(({ what, line }) => [`  # ${what}`, `  ${line}`]),
    "",
  ].join("\n");
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
