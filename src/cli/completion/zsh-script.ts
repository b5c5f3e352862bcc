// The completion script for zsh: one function per command, with specifications for zsh's own `_arguments`.

import type { CompletedCommand, CompletedOption, CompletedPositional, ArgumentCompletion } from "./completion-tree.js";
import { singleQuoted } from "../shell-quotes.js";

/** The script for a file `_rocmforge` in the fpath, which may also be sourced. */
export function zshScript(commands: readonly CompletedCommand[]): string {
  return `#compdef rocmforge
# zsh completion for rocmforge: source <(rocmforge completion zsh), after compinit

_rocmforge_models() {
  local -a models
  models=("\${(@f)$(command rocmforge completion models 2>/dev/null)}")
  # Names of models contain colons, which compadd takes literally.
  compadd -a models
}

_rocmforge_models_and_files() {
  _rocmforge_models
  _files
}

_rocmforge() {
  local curcontext="$curcontext" state line
  typeset -A opt_args
  local -a commands
  commands=(
${commands.map(({ name, summary }) => `    ${singleQuoted(`${name}:${summary}`)}`).join("\n")}
  )
  _arguments -C '1: :->command' '*:: :->argument'
  case "$state" in
    command) _describe -t commands command commands ;;
    argument)
      case "\${words[1]}" in
${commands.map(commandCase).join("\n")}
      esac
      ;;
  esac
}

if [ "$funcstack[1]" = _rocmforge ]; then _rocmforge "$@"; else compdef _rocmforge rocmforge; fi
`;
}

function commandCase({ name, options, positionals, hasRest }: CompletedCommand): string {
  const specifications = [
    ...options.map(optionSpecification),
    ...positionals.map((positional, index) => positionalSpecification(positional, index)),
    ...(hasRest ? [singleQuoted("*::argument:_files")] : []),
  ];
  return `        ${name}) _arguments -s -S ${specifications.map((text) => `\\\n          ${text}`).join(" ")} ;;`;
}

/** `'(-m --model)'{-m+,--model=}'[description]:MODEL:action'`; repeatable ones begin with `*` instead. */
function optionSpecification({ name, short, description, placeholder, value, isRepeatable }: CompletedOption): string {
  const argument = placeholder === undefined ? "" : `:${escaped(placeholder)}:${actionOf(value)}`;
  const text = singleQuoted(`[${escaped(description)}]${argument}`);
  const [long, brief] = placeholder === undefined ? [`--${name}`, `-${short}`] : [`--${name}=`, `-${short}+`];
  const spelling = short === undefined ? long : `{${brief},${long}}`;
  if (isRepeatable) return `'*'${spelling}${text}`;
  return short === undefined ? `${spelling}${text}` : `'(-${short} --${name})'${spelling}${text}`;
}

function positionalSpecification({ name, value, isRepeatable }: CompletedPositional, index: number): string {
  return singleQuoted(`${isRepeatable ? "*" : index + 1}:${escaped(name)}:${actionOf(value)}`);
}

function actionOf(value: ArgumentCompletion): string {
  switch (value.kind) {
    case "nothing":
      return " ";
    case "files":
      return "_files";
    case "models":
      return "_rocmforge_models";
    case "models-and-files":
      return "_rocmforge_models_and_files";
    case "values":
      return `(${value.values.join(" ")})`;
    default:
      return value satisfies never;
  }
}

/** Brackets and colons separate the parts of a specification. */
function escaped(text: string): string {
  return text.replace(/[\\[\]:]/g, String.raw`\$&`);
}
