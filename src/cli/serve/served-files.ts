// The values of -m with files instead of names: what is not on this machine is downloaded before a server starts.

import { type ModelFileValues, namedModel } from "../model-file.js";
import { splitModelValue } from "./model-list.js";

/** MODEL and NAME=MODEL as FILE and NAME=FILE; a model's label is its name in requests unless one is given. */
export async function servedFiles(
  models: readonly string[],
  values: Omit<ModelFileValues, "model">,
): Promise<readonly string[]> {
  const files: string[] = [];
  for (const value of models) {
    const { name, model } = splitModelValue(value);
    const { path, label } = await namedModel(model, { ...values, model });
    files.push(label === "" ? value : `${name ?? label}=${path}`);
  }
  return files;
}
