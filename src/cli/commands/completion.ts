// `rocmforge completion`: prints the script with which a shell completes this command line.

import { OptionError } from "../../errors.js";
import { listModels } from "../../index.js";
import { didYouMean } from "../../nearest.js";
import { defineCommand } from "../command.js";
import { bashScript } from "../completion/bash-script.js";
import { type CompletedCommand, completionTree } from "../completion/completion-tree.js";
import { fishScript } from "../completion/fish-script.js";
import { zshScript } from "../completion/zsh-script.js";
import { GENERAL_OPTIONS } from "../model-options.js";
import type { OptionTable } from "../option-table.js";

const NAME = "completion";
/** Prints the names of the models in the caches, for the scripts. */
const MODELS = "models";

const SCRIPTS: Readonly<Record<string, (commands: readonly CompletedCommand[]) => string>> = {
  bash: bashScript,
  zsh: zshScript,
  fish: fishScript,
};

const OPTIONS = { ...GENERAL_OPTIONS } as const satisfies OptionTable;

/** The command `completion`. */
export const completion = defineCommand({
  name: NAME,
  summary: "prints a completion script for bash, zsh or fish",
  about: [
    "Commands, options, their values, files, and the names of models in the caches are completed. Put the first line below",
    "into ~/.bashrc, or the second one into ~/.zshrc, after compinit. The scripts ask `rocmforge completion models` for the",
    "names of models.",
  ],
  positionals: ["SHELL"],
  choices: { SHELL: Object.keys(SCRIPTS) },
  options: OPTIONS,
  examples: [
    { what: "bash", line: 'eval "$(rocmforge completion bash)"' },
    { what: "zsh", line: "source <(rocmforge completion zsh)" },
    { what: "fish", line: "rocmforge completion fish > ~/.config/fish/completions/rocmforge.fish" },
  ],
  async run(_values, [shell], { output, loadCommands }) {
    if (shell === MODELS) {
      await output.write(await modelNames());
      return 0;
    }
    if (shell === undefined || !Object.hasOwn(SCRIPTS, shell)) throw unknownShell(shell);
    await output.write(SCRIPTS[shell](completionTree(await loadCommands())));
    return 0;
  },
});

/** One name in each line; names that a shell would not take as one word are left out. */
async function modelNames(): Promise<string> {
  const names = (await listModels()).filter(({ unfinished }) => !unfinished).map(({ name }) => name);
  return names
    .filter((name) => /^[\w.:/@+#%~=-]+$/.test(name))
    .map((name) => `${name}\n`)
    .join("");
}

function unknownShell(shell: string | undefined): OptionError {
  const shells = Object.keys(SCRIPTS);
  const found = shell === undefined ? "nothing" : `"${shell}"`;
  const guess = shell === undefined ? "" : didYouMean(shell, shells);
  return new OptionError(
    "OPTION_VALUE",
    `[${NAME}] expected a shell (${shells.join(", ")}), found ${found}${guess === "" ? "" : `;${guess}`}`,
    { details: { option: "shell", found } },
  );
}
