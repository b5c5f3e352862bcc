// The completion script for bash, 3.2 (macOS) and later. Words are split at blanks here and not by bash, which splits
// model names at their colons; what bash considers to be before the word is removed from the answers.

import type { CompletedCommand, CompletedOption, ArgumentCompletion } from "./completion-tree.js";
import { doubleQuoted } from "../shell-quotes.js";
import { valueKey } from "./script-text.js";

/** The script that bash sources. */
export function bashScript(commands: readonly CompletedCommand[]): string {
  return `# bash completion for rocmforge: eval "$(rocmforge completion bash)"

# What an argument of a command may be: its values, files, models, or flag if the option has no value.
_rocmforge_argument() {
  case "$1 $2" in
${argumentCases(commands)}
  esac
}

_rocmforge_options() {
  case "$1" in
${commands.map(({ name, options }) => `    ${name}) echo ${doubleQuoted(optionWords(options))} ;;`).join("\n")}
  esac
}

_rocmforge_models() { command rocmforge completion models 2>/dev/null; }

_rocmforge_candidates() {
  case "$1" in
    files) compgen -f -- "$2" ;;
    models) compgen -W "$(_rocmforge_models)" -- "$2" ;;
    models-and-files) compgen -W "$(_rocmforge_models)" -- "$2"; compgen -f -- "$2" ;;
    nothing | flag | "") ;;
    *) compgen -W "\${1#values:}" -- "$2" ;;
  esac
}

_rocmforge() {
  local line="\${COMP_LINE:0:COMP_POINT}" words current="" command pending="" position=0 rest="" index kind prefix="" answer
  read -ra words <<<"$line"
  case "$line" in
    *[[:space:]]) ;;
    *) index=$((\${#words[@]} - 1)); current="\${words[index]}"; unset "words[index]" ;;
  esac
  COMPREPLY=()
  command="\${words[1]}"
  for ((index = 2; index < \${#words[@]}; index++)); do
    if [ -n "$rest" ]; then continue; fi
    if [ -n "$pending" ]; then pending=""; continue; fi
    case "\${words[index]}" in
      --) rest=1 ;;
      --*=*) ;;
      -?*)
        kind="$(_rocmforge_argument "$command" "\${words[index]}")"
        case "$kind" in flag | "") ;; *) pending="$kind" ;; esac
        ;;
      *) position=$((position + 1)) ;;
    esac
  done
  if [ -z "$command" ]; then
    kind=${doubleQuoted(`values:${commands.map(({ name }) => name).join(" ")} --help --version`)}
  elif [ -n "$rest" ]; then kind=files
  elif [ -n "$pending" ]; then kind="$pending"
  else
    case "$current" in
      --*=*) prefix="\${current%%=*}="; kind="$(_rocmforge_argument "$command" "\${current%%=*}")" ;;
      -*) kind="values:$(_rocmforge_options "$command")" ;;
      *)
        kind="$(_rocmforge_argument "$command" "$position")"
        if [ -z "$kind" ]; then kind="$(_rocmforge_argument "$command" '*')"; fi
        ;;
    esac
  fi
  case "$kind" in *files) compopt -o filenames 2>/dev/null ;; esac
  local before="" breaks="\${COMP_WORDBREAKS//[^:=]/}"
  if [ -n "$breaks" ]; then before="\${current%"\${current##*[$breaks]}"}"; fi
  while IFS= read -r answer; do
    answer="$prefix$answer"
    COMPREPLY[\${#COMPREPLY[@]}]="\${answer#"$before"}"
  done < <(_rocmforge_candidates "$kind" "\${current#"$prefix"}")
}

complete -F _rocmforge rocmforge
`;
}

/** One case for all arguments that are completed alike. */
function argumentCases(commands: readonly CompletedCommand[]): string {
  const patterns = new Map<string, string[]>();
  const add = (key: string, pattern: string): void => void patterns.set(key, [...(patterns.get(key) ?? []), pattern]);
  for (const { name, options, positionals } of commands) {
    for (const option of options) for (const spelling of spellings(option)) add(keyOf(option), `${name} ${spelling}`);
    for (const [index, { value, isRepeatable }] of positionals.entries())
      add(valueKey(value), `${name} ${isRepeatable ? "*" : index}`);
  }
  return [...patterns]
    .map(([key, words]) => `    ${words.map((word) => `'${word}'`).join(" | ")}) echo ${doubleQuoted(key)} ;;`)
    .join("\n");
}

function keyOf({ placeholder, value }: CompletedOption): string {
  return placeholder === undefined ? "flag" : valueKey(value satisfies ArgumentCompletion);
}

function optionWords(options: readonly CompletedOption[]): string {
  return options.flatMap(spellings).join(" ");
}

function spellings({ name, short }: CompletedOption): readonly string[] {
  return [`--${name}`, ...(short === undefined ? [] : [`-${short}`])];
}
