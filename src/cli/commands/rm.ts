// `rocmforge rm`: removes models from the cache.

import { removeModel } from "../../index.js";
import { defineCommand } from "../command.js";
import { formatBytes, printable } from "../format.js";
import { GENERAL_OPTIONS } from "../model-options.js";
import { type OptionTable, wrongValue } from "../option-table.js";

const NAME = "rm";

const OPTIONS = { ...GENERAL_OPTIONS } as const satisfies OptionTable;

/** The command `rm`. */
export const rm = defineCommand({
  name: NAME,
  summary: "removes models from the cache",
  about: [
    "hf:user/repo removes all GGUF files of the repository and its unfinished downloads; with a quant or a file only",
    "those. Other files in the cache and the models of Ollama stay.",
  ],
  positionals: ["MODEL…"],
  options: OPTIONS,
  examples: [{ what: "one quantisation of a model", line: "rocmforge rm hf:user/repo:Q4_K_M" }],
  async run(_values, names, { output }) {
    if (names.length === 0) throw wrongValue(NAME, "model", "a model that `rocmforge list` shows", "nothing");
    for (const name of names) {
      const { freedBytes } = await removeModel(name);
      await output.write(`${printable(name)}: ${formatBytes(freedBytes)} freed\n`);
    }
    return 0;
  },
});
