// `rocmforge list`: the models that are on this machine, by the names that every command takes.

import { type ListedModel, listModels } from "../../index.js";
import { defineCommand } from "../command.js";
import { formatBytes, formatTable, printable } from "../format.js";
import { GENERAL_OPTIONS } from "../model-options.js";
import type { OptionTable } from "../option-table.js";

const OPTIONS = {
  json: { kind: "flag", description: "print one JSON array" },
  ...GENERAL_OPTIONS,
} as const satisfies OptionTable;

/** The command `list`. */
export const list = defineCommand({
  name: "list",
  summary: "lists the models on this machine",
  about: ["Models in Hugging Face's cache, whichever tool put them there, those from other addresses, and Ollama's."],
  positionals: [],
  options: OPTIONS,
  examples: [{ what: "all models with paths and sizes, as JSON", line: "rocmforge list --json" }],
  async run(values, _positionals, { output }) {
    const models = await listModels();
    if (values.json) await output.writeJson(models);
    else if (models.length === 0)
      process.stderr.write("rocmforge: no models; `rocmforge pull hf:user/repo` gets one\n");
    else await output.write(`${formatTable(models.map(rowOf), ["left", "right", "left"], "")}\n`);
    return 0;
  },
});

function rowOf({ name, sizeBytes, modified, unfinished }: ListedModel): string[] {
  const [day] = modified.toISOString().split("T");
  return [printable(name), formatBytes(sizeBytes), `${day}${unfinished ? "  unfinished" : ""}`];
}
