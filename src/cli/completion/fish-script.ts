// The completion script for fish: one `complete` command for each command, option and positional argument.

import type { CompletedCommand, CompletedOption, ArgumentCompletion } from "./completion-tree.js";

const MODELS = "(__rocmforge_models)";

/** The script that fish sources. */
export function fishScript(commands: readonly CompletedCommand[]): string {
  return `# fish completion for rocmforge: rocmforge completion fish | source

function __rocmforge_models
    command rocmforge completion models 2>/dev/null
end

# Whether the command line has this command.
function __rocmforge_command
    set -l words (commandline -opc)
    test (count $words) -gt 1; and contains -- $words[2] $argv
end

function __rocmforge_no_command
    test (count (commandline -opc)) -eq 1
end

complete -c rocmforge -f
complete -c rocmforge -n __rocmforge_no_command -l version -d 'the version of this package'
${commands.map(({ name, summary }) => `complete -c rocmforge -n __rocmforge_no_command -a ${name} -d ${quoted(summary)}`).join("\n")}
${commands.flatMap(commandLines).join("\n")}
`;
}

function commandLines({ name, options, positionals, hasRest }: CompletedCommand): readonly string[] {
  const begin = `complete -c rocmforge -n ${quoted(`__rocmforge_command ${name}`)}`;
  return [
    ...options.map((option) => `${begin} ${optionWords(option)}`),
    ...positionals.map(({ value }) => `${begin}${valueWords(value)}`),
    ...(hasRest ? [`${begin} -F`] : []),
  ];
}

function optionWords({ name, short, description, placeholder, value }: CompletedOption): string {
  const spelling = `-l ${name}${short === undefined ? "" : ` -s ${short}`}`;
  const argument = placeholder === undefined ? "" : ` -r${valueWords(value)}`;
  return `${spelling}${argument} -d ${quoted(description)}`;
}

function valueWords(value: ArgumentCompletion): string {
  switch (value.kind) {
    case "nothing":
      return " -f";
    case "files":
      return " -F";
    case "models":
      return ` -f -a ${quoted(MODELS)}`;
    case "models-and-files":
      return ` -F -a ${quoted(MODELS)}`;
    case "values":
      return ` -f -a ${quoted(value.values.join(" "))}`;
    default:
      return value satisfies never;
  }
}

/** In single quotes, in which fish knows two escapes. */
function quoted(text: string): string {
  return `'${text.replace(/[\\']/g, String.raw`\$&`)}'`;
}
